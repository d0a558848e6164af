// The checks of an agent that have begun and are not answered yet.

/** Counts checks that wait for something else than their turn in a queue, whose length is bounded already. */
export interface InProgress {
  begun(): void;
  ended(): void;
}
