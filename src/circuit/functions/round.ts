// Rounding to integers, exact for every double: the fractional part is exact, whereas adding a half is not
// (0.49999999999999994 + 0.5 is 1).

/** Rounds halves away from zero. */
export function roundAway(x: number): number {
  const whole = Math.trunc(x);
  return Math.abs(x - whole) >= 0.5 ? whole + Math.sign(x) : whole;
}

/** Rounds halves to the even neighbour. */
export function roundToEven(x: number): number {
  const whole = Math.trunc(x);
  const rest = Math.abs(x - whole);
  return rest > 0.5 || (rest === 0.5 && whole % 2 !== 0) ? whole + Math.sign(x) : whole;
}
