// Properties of which a test says what their samples contain.

import fc from "fast-check";

/**
 * Checks a property of generated values twice: with new values, and with the same ones in every run. What a test then says of
 * the values as a whole, as that many of them were accepted, holds of the latter and so never fails by chance.
 */
export function assertTwice<Values>(property: fc.IProperty<Values>, numRuns: number): void {
  fc.assert(property, { numRuns });
  fc.assert(property, { numRuns, seed: 1 });
}
