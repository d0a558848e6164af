// A compiled circuit as a graph of components and the signals between them, with composites expanded to a
// chosen depth. The same graph is written as Mermaid, DOT and JSON.

import type { CircuitPlan, Leaf, Wire } from "#circuit/plan.ts";
import type { CompiledPolicy } from "../compiled.ts";
import { containerKinds } from "./containers.ts";

export interface GraphNode {
  readonly id: string;
  /** As in the language (`decider`, `aimd_load_scheduler`), or an inner component such as `load_actuator`. */
  readonly kind: string;
  /** Id of the expanded composite or nested circuit that holds it; undefined in the root circuit. */
  readonly parent: string | undefined;
  /** Constants at its in-ports, as `port = value`. */
  readonly constants: readonly string[];
}

export interface GraphLink {
  readonly from: { readonly id: string; readonly port: string };
  readonly to: { readonly id: string; readonly port: string };
  readonly signal: string;
  /** The reader gets the value of the previous tick. */
  readonly looped: boolean;
}

export interface Graph {
  readonly policy: string;
  readonly hash: string;
  /** Expanded composites and nested circuits, outer before inner. */
  readonly groups: readonly Pick<GraphNode, "id" | "kind" | "parent">[];
  readonly nodes: readonly GraphNode[];
  readonly links: readonly GraphLink[];
}

/** Depth at which all composites are expanded; depth 0 shows the document's own components. */
export const ALL_OPEN = Number.POSITIVE_INFINITY;

export function graphOf({ circuit, document, name, hash }: CompiledPolicy, open: number): Graph {
  if (circuit === undefined) return { policy: name, hash, groups: [], nodes: [], links: [] };
  return { policy: name, hash, ...drawn(circuit, open, containerKinds(document)) };
}

function drawn(
  plan: CircuitPlan,
  open: number,
  kinds: ReadonlyMap<string, string>,
): Pick<Graph, "groups" | "nodes" | "links"> {
  const groups = new Map<string, Graph["groups"][number]>();
  const nodes = new Map<string, GraphNode>();
  const kindOf = (id: string) => kinds.get(id) ?? "circuit";
  for (const leaf of plan.leaves) {
    const steps = ancestry(leaf.id);
    // The root circuit has no box; everything below the expanded depth is part of its deepest visible ancestor.
    const shown = steps.slice(1, open + 2);
    const own = shown.at(-1) ?? leaf.id;
    for (const [at, id] of shown.slice(0, -1).entries()) {
      groups.set(id, { id, kind: kindOf(id), parent: shown[at - 1] });
    }
    const kind = own === leaf.id ? leaf.kind : kindOf(own);
    const known = nodes.get(own)?.constants ?? [];
    const constants = [...known, ...(own === leaf.id ? constantsOf(leaf) : [])];
    nodes.set(own, { id: own, kind, parent: shown.at(-2), constants });
  }
  return { groups: [...groups.values()], nodes: [...nodes.values()], links: linksOf(plan, nodes) };
}

/** `root.2.4` as `root`, `root.2`, `root.2.4`. */
function ancestry(id: string): readonly string[] {
  const parts = id.split(".");
  return parts.map((_, at) => parts.slice(0, at + 1).join("."));
}

interface Maker {
  readonly id: string;
  readonly port: string;
  /** Name of the same port at the boundary of the composite around it. */
  readonly name: string;
}

/** Name of a port as seen from outside: ingress and egress leaves stand for a port of their composite. */
function outerName(leaf: Leaf, port: string): string {
  const edge = leaf.kind === "nested_signal_ingress" || leaf.kind === "nested_signal_egress";
  return edge ? leaf.config.port_name : port;
}

function linksOf(plan: CircuitPlan, nodes: ReadonlyMap<string, GraphNode>): GraphLink[] {
  const shown = (id: string) => ancestry(id).findLast((each) => nodes.has(each)) ?? id;
  const makers = new Map<number, Maker>();
  for (const leaf of plan.leaves) {
    for (const [port, signal] of Object.entries(leaf.outputs)) {
      if (signal !== undefined)
        makers.set(signal, { id: leaf.id, port, name: outerName(leaf, port) });
    }
  }
  const links = new Map<string, GraphLink>();
  for (const leaf of plan.leaves) {
    for (const [port, wire] of wiresOf(leaf)) {
      const maker = wire.kind === "signal" ? makers.get(wire.signal) : undefined;
      if (wire.kind !== "signal" || maker === undefined) continue;
      const from = shown(maker.id);
      const to = shown(leaf.id);
      const inside = from === to && from !== maker.id;
      if (inside) continue;
      const link = {
        from: { id: from, port: from === maker.id ? maker.port : maker.name },
        to: { id: to, port: to === leaf.id ? port : outerName(leaf, port) },
        signal: plan.signals[wire.signal]?.name ?? "",
        looped: wire.looped,
      };
      links.set(JSON.stringify(link), link);
    }
  }
  return [...links.values()];
}

function wiresOf({ inputs }: Leaf): (readonly [string, Wire])[] {
  return Object.entries(inputs).flatMap(([port, wires]) =>
    wires.map((wire, at) => [wires.length > 1 ? `${port}[${at}]` : port, wire] as const),
  );
}

function constantsOf(leaf: Leaf): string[] {
  return wiresOf(leaf).flatMap(([port, wire]) =>
    wire.kind === "constant" ? [`${port} = ${number(wire.value)}`] : [],
  );
}

function number(value: number): string {
  return Number.isNaN(value) ? "invalid" : String(value);
}

/** Nodes and boxes as lines, boxes nested as Mermaid and DOT both nest them. */
function nested(
  graph: Graph,
  write: {
    box(group: Graph["groups"][number], inside: string[]): string[];
    node(node: GraphNode): string;
  },
): string[] {
  const within = (parent: string | undefined): string[] => [
    ...graph.nodes.filter((node) => node.parent === parent).map((node) => write.node(node)),
    ...graph.groups
      .filter((group) => group.parent === parent)
      .flatMap((group) => write.box(group, within(group.id))),
  ];
  return within(undefined);
}

/** An id in the characters that both languages accept without quotes. */
function word(prefix: string, id: string): string {
  return prefix + id.replaceAll(".", "_");
}

/** One diagram. Several policies are boxes in it, each with the name of its policy. */
export function mermaid(...graphs: readonly Graph[]): string {
  const lines = boxed(graphs, mermaidLines, ({ policy }, prefix, inside) => [
    `subgraph ${prefix}[${mermaidText(`policy ${policy}`)}]`,
    ...inside,
    "end",
  ]);
  return ["flowchart LR", ...lines.map((line) => `  ${line}`), ""].join("\n");
}

function mermaidText(text: string): string {
  return `"${text.replaceAll("#", "#35;").replaceAll('"', "#quot;").replaceAll("<", "#lt;").replaceAll("\n", " ")}"`;
}

function mermaidLines(graph: Graph, prefix: string): string[] {
  const named = (id: string) => word(prefix, id);
  const lines = nested(graph, {
    node({ id, kind, constants }) {
      return `${named(id)}[${mermaidText([`${kind} ${id}`, ...constants].join(", "))}]`;
    },
    box({ id, kind }, inside) {
      const open = `subgraph ${named(id)}[${mermaidText(`${kind} ${id}`)}]`;
      return [open, ...inside.map((line) => `  ${line}`), "end"];
    },
  });
  const links = graph.links.map(({ from, to, signal, looped }) => {
    const arrow = looped ? "-.->" : "-->";
    const label = mermaidText(`${signal} to ${to.port}${looped ? ", from the previous tick" : ""}`);
    return `${named(from.id)} ${arrow}|${label}| ${named(to.id)}`;
  });
  return [...lines, ...links];
}

/** The same in the language of Graphviz. */
export function dot(...graphs: readonly Graph[]): string {
  const lines = boxed(graphs, dotLines, ({ policy }, prefix, inside) => [
    `subgraph cluster_${prefix} {`,
    `  label=${JSON.stringify(`policy ${policy}`)};`,
    ...inside,
    "}",
  ]);
  const name = JSON.stringify(graphs.length === 1 ? graphs[0]?.policy : "policies");
  const head = [`digraph ${name} {`, "  rankdir=LR;", "  node [shape=box];"];
  return [...head, ...lines.map((line) => `  ${line}`), "}", ""].join("\n");
}

function dotLines(graph: Graph, prefix: string): string[] {
  const quoted = (text: string) => JSON.stringify(text);
  const named = (id: string) => word(prefix, id);
  const lines = nested(graph, {
    node({ id, kind, constants }) {
      return `${named(id)} [label=${quoted([kind, id, ...constants].join("\n"))}];`;
    },
    box({ id, kind }, inside) {
      const open = [`subgraph cluster_${named(id)} {`, `  label=${quoted(`${kind} ${id}`)};`];
      return [...open, ...inside.map((line) => `  ${line}`), "}"];
    },
  });
  const links = graph.links.map(({ from, to, signal, looped }) => {
    const style = looped ? ", style=dashed" : "";
    return `${named(from.id)} -> ${named(to.id)} [label=${quoted(`${signal}\n${to.port}`)}${style}];`;
  });
  return [...lines, ...links];
}

/** The lines of one graph, or those of each of several in a box of its own, whose ids have the prefix of the box. */
function boxed(
  graphs: readonly Graph[],
  lines: (graph: Graph, prefix: string) => string[],
  box: (graph: Graph, prefix: string, inside: readonly string[]) => string[],
): string[] {
  const [only, ...more] = graphs;
  if (only !== undefined && more.length === 0) return lines(only, "");
  return graphs.flatMap((graph, at) => {
    const prefix = `p${at}`;
    return box(
      graph,
      prefix,
      lines(graph, `${prefix}_`).map((line) => `  ${line}`),
    );
  });
}
