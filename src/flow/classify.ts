// Classifiers: labels read out of the request before anybody judges it.

/** Numbers as on the wire. */
export const ClassifierError = {
  none: 0,
  evalFailed: 1,
  emptyResultset: 2,
  ambiguousResultset: 3,
  multiExpression: 4,
  expressionNotMap: 5,
} as const;
export type ClassifierError = (typeof ClassifierError)[keyof typeof ClassifierError];

/** One run of one classifier. Identity-stable per error and plan, so writers may keep its encoded form. */
export interface ClassifierInfo {
  readonly policyName: string;
  readonly policyHash: string;
  readonly classifierIndex: number;
  readonly error: ClassifierError;
}
