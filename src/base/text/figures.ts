// The numbers of a decision as log lines show and compare them.

/** Fields that identify a decision or tell when it was made and how long it counts. */
const NOT_FIGURES: ReadonlySet<string> = new Set([
  "agentGroups",
  "componentId",
  "kind",
  "policyHash",
  "policyName",
  "tick",
  "validUntil",
]);

export function figuresOf(decision: object | undefined): object | undefined {
  if (decision === undefined) return undefined;
  return Object.fromEntries(Object.entries(decision).filter(([name]) => !NOT_FIGURES.has(name)));
}
