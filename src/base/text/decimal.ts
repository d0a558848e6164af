// Decimal numbers in texts from outside: labels, access logs, telemetry and configuration. JSON and protobuf JSON have
// grammars of their own.

/** Each text matches in only one way, so matching takes time linear in the length. */
const DECIMAL = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?$/;

/** More characters than any program writes for a number. */
const MAX_LENGTH = 64;

/** The finite number that a text such as `-1.5e3` or `.5` denotes, or undefined for any other text. */
export function decimalOf(text: string): number | undefined {
  if (text.length > MAX_LENGTH || !DECIMAL.test(text)) return undefined;
  const value = Number(text);
  return Number.isFinite(value) ? value : undefined;
}
