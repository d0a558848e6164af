// Validates the label names of classifiers. They are identifiers of Rego, so that extractors and Rego modules allow the same
// names.

const IDENTIFIER = /^[A-Za-z_][0-9A-Za-z_]*$/;

const KEYWORDS: ReadonlySet<string> = new Set([
  "as",
  "default",
  "else",
  "false",
  "import",
  "not",
  "null",
  "package",
  "some",
  "true",
  "with",
]);

/** The fault of a label name, in a list; empty for a valid name. */
export function labelNameFaults(name: string): string[] {
  if (name === "") return ["rules: a label needs a name, got an empty one"];
  if (!IDENTIFIER.test(name)) {
    return [
      `label "${name}": a name of letters, digits and "_" is wanted, not starting with a digit`,
    ];
  }
  if (KEYWORDS.has(name)) return [`label "${name}": the name is a keyword of the rule language`];
  return [];
}
