'use strict';

// The outcomes of FORMAT.md 10 ("invalid" is for policies alone). A Refusal is the only exception that reports a fault of the file; any other exception is a fault of this program.

class Refusal extends Error {
  constructor(outcome, message) {
    super(message);
    this.outcome = outcome;
  }
}

const refuse = (outcome) => (message) => {
  throw new Refusal(outcome, message);
};

/** The result of a function; null if it refuses what it is given. */
function attempt(read) {
  try {
    return read();
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}

module.exports = {
  Refusal,
  attempt,
  containerFailure: refuse('container failure'),
  dataFailure: refuse('data failure'),
  pickleFailure: refuse('pickle failure'),
  tensorFailure: refuse('tensor failure'),
  limitExceeded: refuse('limit exceeded'),
  unsupported: refuse('unsupported'),
  missing: refuse('missing'),
  invalid: refuse('invalid'),
};
