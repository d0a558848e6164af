// Rounding to whole numbers, exact for every double: the part behind the point is exact, adding a half is
// not (0.49999999999999994 + 0.5 is 1).

/** Halves go away from zero. */
export function roundAway(x: number): number {
  const whole = Math.trunc(x);
  return Math.abs(x - whole) >= 0.5 ? whole + Math.sign(x) : whole;
}

/** Halves go to the even neighbour. */
export function roundToEven(x: number): number {
  const whole = Math.trunc(x);
  const rest = Math.abs(x - whole);
  return rest > 0.5 || (rest === 0.5 && whole % 2 !== 0) ? whole + Math.sign(x) : whole;
}
