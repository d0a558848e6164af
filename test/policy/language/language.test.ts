// Rules that all tables of the language obey.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Message } from "#policy/language/field.ts";
import { policy } from "#policy/language/policy.ts";

test("a field name that is a duration in one message is one in all messages", () => {
  const kinds = new Map<string, Set<boolean>>();
  const seen = new Set<Message>();
  const visit = (table: Message): void => {
    if (seen.has(table)) return;
    seen.add(table);
    for (const [name, { type }] of Object.entries(table.fields)) {
      const inner = type.kind === "list" || type.kind === "map" ? type.of.type : type;
      kinds.set(name, (kinds.get(name) ?? new Set()).add(inner.kind === "duration"));
      if (inner.kind === "message") visit(inner.of());
    }
  };
  visit(policy);
  const durations = [...kinds].filter(([, is]) => is.has(true));
  assert.ok(durations.length > 15, String(durations.length));
  for (const [name, is] of durations) assert.equal(is.size, 1, name);
});
