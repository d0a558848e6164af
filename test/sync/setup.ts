// Selectors and components as rules and as stored messages, for tests of both halves.

import type { SelectorRule } from "#flow/rules.ts";
import type { JsonObject } from "#policy/compiled.ts";

export const selector: SelectorRule = {
  controlPoint: "ingress",
  agentGroup: "default",
  service: "any",
  matcher: {
    labels: { tier: "gold" },
    list: [{ key: "region", operator: "NotIn", values: ["eu", ""] }],
    expression: {
      kind: "all",
      of: [
        { kind: "not", of: { kind: "label_exists", label: "bot" } },
        {
          kind: "any",
          of: [
            { kind: "label_equals", label: "a", value: "" },
            { kind: "label_matches", label: "b", regex: "^x" },
          ],
        },
      ],
    },
  },
};

export const plain: SelectorRule = {
  controlPoint: "egress",
  agentGroup: "prod",
  service: "cart",
  matcher: { labels: {}, list: [], expression: undefined },
};

export const component = { policyName: "p", policyHash: "h", selectors: [selector, plain] };

export const selectors: JsonObject["selectors"] = [
  {
    control_point: "ingress",
    agent_group: "default",
    service: "any",
    label_matcher: {
      match_labels: { tier: "gold" },
      match_list: [{ key: "region", operator: "NotIn", values: ["eu", ""] }],
      expression: {
        all: {
          of: [
            { not: { label_exists: "bot" } },
            {
              any: {
                of: [
                  { label_equals: { label: "a", value: "" } },
                  { label_matches: { label: "b", regex: "^x" } },
                ],
              },
            },
          ],
        },
      },
    },
  },
  { control_point: "egress", agent_group: "prod", service: "cart" },
];

export const agentGroups = ["default", "prod"];

export const identity = { name: "p", hash: "h" };
