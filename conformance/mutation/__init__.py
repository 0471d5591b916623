"""Mutation testing of the conformance vectors: which changes of a decoder does no vector notice?"""
