// Label names that a classifier may use: identifiers of Rego, so that classifiers written as extractors and
// classifiers written as Rego modules allow the same names.

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

/** Reasons against a name as that of a label, at most one; empty when there is none. */
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
