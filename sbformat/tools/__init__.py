"""One verb a module: a pure function in, a frozen report out. The verbs do not know one another."""
