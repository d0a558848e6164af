// Writes header blocks (RFC 7541). One per connection: it shares a dynamic table with the peer's decoder.

/** A header block that is the same in every reply that has it: fields as names and values in turn. */
export class FixedBlock {
  readonly fields: readonly string[];

  constructor(fields: readonly string[]) {
    this.fields = fields;
  }
}
