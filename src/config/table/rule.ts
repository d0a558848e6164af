// Rules between keys of one object, as data: the process refuses what breaks them, and the charts refuse the same before they install it.

/** A violation of a rule about several keys of one object, which no single row can express. */
export interface Violation {
  /** Path of the key, relative to the object. */
  readonly key: string;
  readonly wanted: string;
  /** Path of the key that asks for this by being set, relative to the object. */
  readonly because?: string;
  readonly got: string;
}

/**
 * What the text of a value has to be like. Booleans and numbers are texts as in YAML, and an empty list is an empty text. `lacks`: it
 * does not begin with that text. `below`: as a number, it is less than the value of that key.
 */
export type Condition = readonly [key: string, is: "is" | "is not" | "lacks" | "below", of: string];

/** A violation wherever all conditions hold. */
export interface KeyRule extends Omit<Violation, "got"> {
  readonly when: readonly Condition[];
  /** The default is `nothing`. */
  readonly got?: (settings: Settings) => string;
}

/** Asks for a key that is empty while another one is set. */
export function needed(key: string, because: string, wanted: string): Omit<KeyRule, "because"> {
  return {
    key,
    when: [
      [key, "is", ""],
      [because, "is not", ""],
    ],
    wanted,
  };
}

type Settings = Readonly<Record<string, unknown>>;

/** The rule that is broken, of those for the same key the first one. */
export function broken(rules: readonly KeyRule[], settings: Settings): readonly Violation[] {
  const found = new Map<string, Violation>();
  for (const { when, got, ...rule } of rules)
    if (!found.has(rule.key) && when.every((condition) => holds(condition, settings)))
      found.set(rule.key, { ...without(rule), got: got?.(settings) ?? "nothing" });
  return [...found.values()];
}

const without = ({ key, wanted, because }: Omit<Violation, "got">) =>
  because === undefined ? { key, wanted } : { key, wanted, because };

function holds([key, is, of]: Condition, settings: Settings): boolean {
  const text = textAt(settings, key);
  switch (is) {
    case "is":
      return text === of;
    case "is not":
      return text !== of;
    case "lacks":
      return !text.startsWith(of);
    case "below":
      return Number(text) < Number(textAt(settings, of));
  }
}

/** The text of the value at a path. */
export function textAt(settings: Settings, path: string): string {
  const value = path
    .split(".")
    .reduce<unknown>((at, key) => (at as Settings | undefined)?.[key], settings);
  if (Array.isArray(value)) return value.length === 0 ? "" : JSON.stringify(value);
  return String(value);
}
