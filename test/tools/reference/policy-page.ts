// Generates docs/policy-components.md, the reference of the language: every component and resource with its
// description, ports, parameters and rules, from the tables that validate documents.

import type { Field, Message, Type } from "#policy/language/field.ts";
import { scheduler } from "#policy/language/load.ts";
import { component, flowControl } from "#policy/language/policy.ts";
import { inPort, outPort } from "#policy/language/ports.ts";
import { resources } from "#policy/language/resources.ts";
import { labelMatcher, selector } from "#policy/language/selector.ts";
import { alerterParameters } from "#policy/language/signals.ts";
import { durationText } from "#policy/message.ts";
import { formatRange } from "#policy/validate/scalars.ts";
import { ADAPTIVE_CONCURRENCY, CANNOT_DECIDE } from "./policy-sections.ts";

interface Listed {
  readonly path: string;
  readonly field: Field;
  readonly of: Message;
}

/** Parts that several components have: described once, and referred to by name elsewhere. */
const SHARED: readonly (readonly [string, Message])[] = [
  ["Selector", selector],
  ["LabelMatcher", labelMatcher],
  ["Scheduler", scheduler],
  ["Alerter.Parameters", alerterParameters],
  ["InPort", inPort],
  ["OutPort", outPort],
];

/** Members that only group other components. */
const GROUPS: ReadonlySet<string> = new Set(["flow_control", "auto_scale", "query"]);

/** `examples` has the YAML of one use by the path of its component; the page of a component without one has none. */
export function componentsPage(examples: ReadonlyMap<string, string> = new Map()): string {
  const described = (listed: Listed) => section(listed, examples.get(listed.path));
  const components = membersOf(component, "").flatMap((listed) =>
    GROUPS.has(listed.path) ? membersOf(listed.of, `${listed.path}.`) : [listed],
  );
  const beside = membersOf(resources, "resources.").flatMap((listed) =>
    listed.path === "resources.flow_control" ? membersOf(listed.of, `${listed.path}.`) : [listed],
  );
  const lines = [
    "# Policy components",
    "",
    "<!-- Generated from src/policy/language. -->",
    "",
    ...INTRODUCTION,
    "",
    "| Component | What it does | Carried out by |",
    "|---|---|---|",
    ...[...components, ...beside].map(overviewRow),
    "",
    ...CANNOT_DECIDE,
    "",
    ...ADAPTIVE_CONCURRENCY,
    "",
    "## Components",
    "",
    ...components.flatMap(described),
    "## Resources",
    "",
    ...beside.flatMap(described),
    "## Shared parts",
    "",
    ...SHARED.flatMap(([title, of]) => [`### ${title}`, "", ...tables(of)]),
  ];
  return `${lines.join("\n").trimEnd()}\n`;
}

const INTRODUCTION: readonly string[] = [
  "A policy is a circuit of components, evaluated once in every tick, and resources. Components read signals at",
  "in-ports and write signals at out-ports. A reading is a number or *invalid*; an unconnected in-port reads",
  "invalid. Windows and delays are rounded up to whole ticks. Keys are snake_case, durations decimal seconds with",
  "the suffix `s`. An absent key has its default; an explicit zero is kept. For completion and validation in an",
  "editor, use [policy.schema.json](policy.schema.json): write",
  "`# yaml-language-server: $schema=<path to policy.schema.json>` as the first line of a document.",
  "",
  "*Published only*: the controller compiles the component and publishes its decisions, but agents of this version",
  "do not act on them. A warning says so.",
];

function overviewRow({ path, field }: Listed): string {
  const by = !isAgents(path) ? "controller" : field.published ? "published only" : "agents";
  const old = field.deprecated === undefined ? "" : " *Deprecated.*";
  return `| [\`${path}\`](#${anchor(path)}) | ${field.about ?? ""}${old} | ${by} |`;
}

function isAgents(path: string): boolean {
  return /^(?:flow_control|resources)\./.test(path);
}

function membersOf(message: Message, prefix: string): Listed[] {
  return Object.entries(message.fields).flatMap(([name, field]) => {
    const of = inside(field.type);
    return of === undefined ? [] : [{ path: `${prefix}${name}`, field, of }];
  });
}

/** The message that a field holds, directly or as the element of a list or map. */
function inside(type: Type): Message | undefined {
  if (type.kind === "message") return type.of();
  return type.kind === "list" || type.kind === "map" ? inside(type.of.type) : undefined;
}

function section({ path, field, of }: Listed, example: string | undefined): string[] {
  const notes = [
    field.about ?? "",
    ...(field.published ? ["Published only."] : []),
    oldNote(field),
  ];
  const used = example === undefined ? [] : ["```yaml", example.trimEnd(), "```", ""];
  const about = notes.filter((note) => note !== "").join(" ");
  return [`### ${path}`, "", about, "", ...used, ...tables(of)];
}

function oldNote({ deprecated }: Field): string {
  if (deprecated === undefined) return "";
  return deprecated === "" ? "Deprecated." : `Deprecated: use \`${deprecated}\`.`;
}

function tables(message: Message): string[] {
  const leaves = leavesOf(message, "", new Set([message]));
  const ports = leaves.filter(({ of }) => of === inPort || of === outPort);
  const others = leaves.filter((leaf) => !ports.includes(leaf));
  return [
    ...(ports.length === 0
      ? []
      : ["| Port | Direction | Rules | Description |", "|---|---|---|---|"]),
    ...ports.map(portRow),
    ...(ports.length === 0 ? [] : [""]),
    ...(others.length === 0
      ? []
      : ["| Parameter | Type | Default | Rules | Description |", "|---|---|---|---|---|"]),
    ...others.map(parameterRow),
    ...(others.length === 0 ? [] : [""]),
  ];
}

interface Leaf {
  readonly path: string;
  readonly field: Field;
  readonly of: Message | undefined;
}

const NAMED: ReadonlySet<Message> = new Set([
  component,
  flowControl,
  ...SHARED.map(([, of]) => of),
]);

/** Fields without sub-fields of their own. Shared and recursive messages count as such and are named, not repeated. */
function leavesOf(message: Message, prefix: string, known: ReadonlySet<Message>): Leaf[] {
  return Object.entries(message.fields).flatMap(([name, field]) => {
    const path = `${prefix}${name}${suffix(field.type)}`;
    const of = inside(field.type);
    if (of === undefined || known.has(of) || NAMED.has(of)) return [{ path, field, of }];
    const inner = leavesOf(of, `${path}.`, new Set(known).add(of));
    const ports = name === "in_ports" || name === "out_ports";
    return ports ? inner : [{ path, field, of }, ...inner];
  });
}

function suffix(type: Type): string {
  return type.kind === "list" ? "[]" : type.kind === "map" ? ".<key>" : "";
}

function portRow({ path, field, of }: Leaf): string {
  const name = path.replace(/^(?:in|out)_ports\./, "");
  const direction = of === inPort ? "in" : "out";
  return `| \`${name}\` | ${direction} | ${field.required ? "required" : ""} | ${field.about ?? ""} |`;
}

function parameterRow({ path, field }: Leaf): string {
  const cells = [`\`${path}\``, typeName(field.type), defaultText(field), rulesText(field)];
  return `| ${cells.join(" | ")} | ${field.about ?? ""} |`;
}

function typeName(type: Type): string {
  switch (type.kind) {
    case "message":
      return type.of().name;
    case "list":
      return `list of ${typeName(type.of.type)}`;
    case "map":
      return `map of ${typeName(type.of.type)}`;
    case "integer":
      return type.size;
    case "enum":
      return type.name;
    case "text":
    case "number":
    case "boolean":
    case "duration":
    case "object":
      return type.kind;
  }
}

function defaultText({ means, default: value = means, type }: Field): string {
  if (value === undefined || value === "" || value instanceof Map) return "";
  if (Array.isArray(value)) return value.join(", ");
  if (type.kind === "duration") return `\`${durationText(Number(value))}\``;
  if (type.kind !== "enum") return `\`${String(value)}\``;
  const [name = ""] = [...type.numbers].find(([, number]) => number === value) ?? [];
  return `\`${name}\``;
}

function rulesText(field: Field): string {
  const { type } = field;
  const rules = [field.required ? "required" : "", field.group ? `one ${field.group}` : ""];
  if (type.kind === "text" && type.oneOf) rules.push(`one of ${type.oneOf.join(", ")}`);
  if (type.kind === "text" && type.noSlash) rules.push("no `/`");
  if (type.kind === "text" && type.form) rules.push(type.form.wanted);
  if (type.kind === "text" && type.regex) rules.push("RE2");
  if (type.kind === "number" || type.kind === "integer") rules.push(formatRange(type));
  if (type.kind === "duration" && type.positive) rules.push("above 0s");
  if ((type.kind === "list" || type.kind === "map") && type.filled) rules.push("at least one");
  if (field.published) rules.push("published only");
  rules.push(
    oldNote(field)
      .replace(/^Deprecated/, "deprecated")
      .replace(/\.$/, ""),
  );
  return rules.filter((rule) => rule !== "").join("; ");
}

function anchor(title: string): string {
  return title.toLowerCase().replaceAll(/[^\w-]/g, "");
}
