// Powers for control loops. Integer exponents are computed as products, so that squares are exact and slopes of 1
// and -1 introduce no error; the engine's own `**` is sometimes off by one rounding.

/** Beyond this exponent a product accumulates more rounding errors than the engine's power. */
const MAX_BY_PRODUCT = 32;

export function power(base: number, exponent: number): number {
  if (Number.isInteger(exponent) && Math.abs(exponent) <= MAX_BY_PRODUCT) {
    const product = integerPower(base, Math.abs(exponent));
    return exponent < 0 ? 1 / product : product;
  }
  if (Math.abs(exponent) === 0.5 && Number.isFinite(base)) {
    const root = Math.sqrt(base);
    return exponent < 0 ? 1 / root : root;
  }
  return base ** exponent;
}

/** By repeated squaring. */
function integerPower(base: number, exponent: number): number {
  let product = 1;
  let square = base;
  for (let left = exponent; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) product *= square;
    square *= square;
  }
  return product;
}
