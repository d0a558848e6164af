// What this room says to people: faults and notices as lines, and the reference page of the language.

import type { Finding, Notice } from "./finding.ts";
import { formatRange } from "./judge.ts";
import type { Field, Message, Standing, Type } from "./language/field.ts";
import { policy } from "./language/policy.ts";
import type { PolicySet, Sourced } from "./set.ts";
import type { Position } from "./tree.ts";

/** `file:line:column: path: wanted …, got …`. */
export function findingLine({ source, of }: Sourced<Finding>): string {
  return shown(`${place(source, of.at, of.path)}: wanted ${of.wanted}, got ${of.got}`);
}

/** `file:line:column: path: text`. */
export function noticeLine({ source, of }: Sourced<Notice>): string {
  return shown(`${place(source, of.at, of.path)}: ${of.text}`);
}

/** One line of text: what a terminal would obey, or not show, is written as its code. */
function shown(line: string): string {
  return line.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

function place(source: string, { line, column }: Position, path: string): string {
  return `${source}:${line}:${column}${path === "" ? "" : `: ${path}`}`;
}

/** A whole set as lines: faults first, then what a person should know, then what was found good. */
export function setLines(set: PolicySet): string[] {
  return [
    ...set.findings.map(findingLine),
    ...set.warnings.map((warning) => `${noticeLine(warning)} (warning)`),
    ...set.observing.map(noticeLine),
    ...set.policies.map(({ source, of }) => {
      const observing = of.observing.length === 0 ? "" : `, ${of.observing.length} observing`;
      const policy = `policy ${of.name} (${of.hash}): ${of.rules.length} rules${observing}`;
      return shown(`${source}: ${policy}`);
    }),
  ];
}

const SAID: Readonly<Record<Standing, string>> = {
  runs: "runs",
  observing: "observing, not run",
  refused: "refused for now",
};

interface Listed {
  readonly path: string;
  readonly message: Message;
  readonly standing: Standing;
}

/** Reference page: every component of the language and what this version does with it. */
export function componentsPage(): string {
  const components = membersOf(find(policy, ["circuit", "components"]), "").flatMap((listed) =>
    GROUPS.has(listed.path) ? membersOf(listed.message, `${listed.path}.`) : [listed],
  );
  const resources = membersOf(find(policy, ["resources"]), "resources.").flatMap((listed) =>
    listed.path === "resources.flow_control"
      ? membersOf(listed.message, "resources.flow_control.")
      : [listed],
  );
  const all = [...components, ...resources];
  return [
    "# Policy components",
    "",
    "<!-- Generated from src/policy/language. -->",
    "",
    "**runs**: becomes rules and numbers for agents; in-ports must be constants, or signals of `variable`",
    "and `bool_variable`. **observing, not run**: judged and loaded; its signals may feed nothing that an",
    "agent reads. **refused for now**: good language that this version cannot run, refused by name.",
    "",
    "| Component | Supported |",
    "|---|---|",
    ...all.map(({ path, standing }) => `| [\`${path}\`](#${anchor(path)}) | ${SAID[standing]} |`),
    "",
    ...all.flatMap(section),
    "## Shared parts",
    "",
    ...SHARED.flatMap((path) => section({ path: path.title, message: path.of, standing: "runs" })),
  ]
    .join("\n")
    .trimEnd()
    .concat("\n");
}

const GROUPS: ReadonlySet<string> = new Set(["flow_control", "auto_scale", "query"]);
const INFRA: ReadonlySet<string> = new Set([
  "resources.infra_meters",
  "resources.telemetry_collectors",
]);

const SELECTOR: readonly string[] = [
  "circuit",
  "components",
  "flow_control",
  "rate_limiter",
  "selectors",
];
const IN_PORT: readonly string[] = ["circuit", "components", "inverter", "in_ports", "input"];
const SHARED = [
  { title: "Selector", of: find(policy, SELECTOR) },
  { title: "InPort", of: find(policy, IN_PORT) },
] as const;
const SHARED_MESSAGES: ReadonlySet<Message> = new Set(SHARED.map(({ of }) => of));

/** The message that a chain of keys leads to, through lists and maps. */
function find(from: Message, keys: readonly string[]): Message {
  return keys.reduce((message, key) => {
    const type = message.fields[key]?.type;
    return (type && inside(type)) ?? message;
  }, from);
}

function inside(type: Type): Message | undefined {
  if (type.kind === "message") return type.of();
  return type.kind === "list" || type.kind === "map" ? inside(type.of.type) : undefined;
}

function membersOf(message: Message, prefix: string): Listed[] {
  return Object.entries(message.fields).flatMap(([name, { type, standing = "runs" }]) => {
    const of = inside(type);
    const path = `${prefix}${name}`;
    const how = INFRA.has(path) ? "observing" : standing;
    return of === undefined ? [] : [{ path, message: of, standing: how }];
  });
}

function section({ path, message, standing }: Listed): string[] {
  return [
    `### ${path}`,
    "",
    ...(SHARED_MESSAGES.has(message) ? [] : [`${capital(SAID[standing])}.`, ""]),
    "| Parameter | Type | Default | Rules |",
    "|---|---|---|---|",
    ...rows(message, "", new Set(SHARED_MESSAGES).add(message)),
    "",
  ];
}

/** One row per leaf; shared and recursive messages are named, not repeated. */
function rows(message: Message, prefix: string, known: ReadonlySet<Message>): string[] {
  return Object.entries(message.fields).flatMap(([name, field]) => {
    const path = `${prefix}${name}${suffix(field.type)}`;
    const of = inside(field.type);
    if (of === undefined || known.has(of) || of === find(policy, ["circuit", "components"])) {
      return [row(path, field)];
    }
    const inner = rows(of, `${path}.`, new Set(known).add(of));
    return field.required ? [row(path, field), ...inner] : inner;
  });
}

function suffix(type: Type): string {
  return type.kind === "list" ? "[]" : type.kind === "map" ? ".<key>" : "";
}

function row(path: string, field: Field<unknown>): string {
  return `| \`${path}\` | ${typeName(field.type)} | ${defaultText(field)} | ${rulesText(field)} |`;
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

function defaultText({ default: value, type }: Field<unknown>): string {
  if (value === undefined || value === "" || value instanceof Map) return "";
  if (Array.isArray(value)) return value.join(", ");
  if (type.kind === "duration") return `\`${Number(value) / 1_000}s\``;
  return `\`${String(value)}\``;
}

function rulesText(field: Field<unknown>): string {
  const { type } = field;
  const rules = [field.required ? "required" : "", field.group ? `one ${field.group}` : ""];
  if (type.kind === "text" && type.oneOf) rules.push(`one of ${type.oneOf.join(", ")}`);
  if (type.kind === "text" && type.noSlash) rules.push("no `/`");
  if (type.kind === "text" && type.regex) rules.push("RE2");
  if (type.kind === "number" || type.kind === "integer") rules.push(formatRange(type));
  if (type.kind === "duration" && type.positive) rules.push("above 0s");
  if ((type.kind === "list" || type.kind === "map") && type.filled) rules.push("at least one");
  if (field.standing === "refused") rules.push(SAID.refused);
  if (field.deprecated !== undefined) {
    rules.push(field.deprecated === "" ? "deprecated" : `deprecated: use ${field.deprecated}`);
  }
  return rules.filter((rule) => rule !== "").join("; ");
}

function anchor(title: string): string {
  return title.toLowerCase().replaceAll(/[^\w-]/g, "");
}

function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
