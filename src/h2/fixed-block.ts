// A field block that is the same in every reply that contains it, so that each connection encodes it only once.

export class FixedBlock {
  /** Names and values in turn, pseudo-headers first. */
  readonly fields: readonly string[];

  constructor(fields: readonly string[]) {
    this.fields = fields;
  }
}
