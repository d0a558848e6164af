// Turns drafts into a plan: expands composites depth first, gives ids by position, resolves signals within their
// circuit, breaks loops, and orders the leaves so that every other wire is written before it is read.

import type { CircuitPlan, Leaf, Signal, Wire } from "#circuit/plan.ts";
import type { AgentConfig, Digest } from "../../compiled.ts";
import { canonicalJson } from "../../message.ts";
import type { CircuitDraft, Draft, LeafDraft, Source, Sources, Targets } from "../draft.ts";
import { type Edge, loopedEdges } from "./loops.ts";
import { orderOf } from "./order.ts";

/** Far more than any real policy has. The components inside composites count. */
export const MAX_LEAVES = 20_000;

export interface FlatCircuit {
  readonly plan: Pick<CircuitPlan, "signals" | "leaves" | "order">;
  /** For agents, in the order of the leaves. */
  readonly configs: readonly AgentConfig[];
}

/** Undefined when there are more than `MAX_LEAVES` leaves. */
export function flatten(parts: readonly Draft[], digest: Digest): FlatCircuit | undefined {
  const expansion = new Expansion(digest);
  const all = expansion.circuit(ROOT, parts, undefined);
  if (!all) return undefined;
  const wired = expansion.places.map((place) => wiresOf(place, expansion.numbers));
  const edges = edgesOf(expansion.places, wired);
  const looped = loopedEdges(expansion.places.length, edges);
  const kept = edges.filter((_, at) => !looped[at]);
  const leaves = finish(expansion.places, wired, looped, identitiesOf(expansion, digest));
  const order = orderOf(expansion.places.length, kept);
  const configs = expansion.places.flatMap(({ draft }) => draft.agentConfig ?? []);
  return { plan: { signals: expansion.signals.slice(), leaves, order }, configs };
}

const ROOT = "root";

interface PlacedLeaf {
  readonly id: string;
  readonly draft: LeafDraft;
  /** Ids of the circuits whose signals its in- and out-ports name. They differ for ingress and egress. */
  readonly reads: string;
  readonly writes: string;
  readonly ins: Sources;
  readonly outs: Targets;
  /** The circuit that contains it; undefined is the root. */
  readonly within: Subcircuit | undefined;
}

/** A circuit below the root. */
interface Subcircuit {
  readonly draft: CircuitDraft;
  /** Id of the circuit around it. */
  readonly circuit: string;
  readonly outer: Subcircuit | undefined;
  /** Digests of what leaves and circuits inside measure and act on. */
  readonly about: Set<string>;
}

class Expansion {
  readonly places: PlacedLeaf[] = [];
  readonly circuits: Subcircuit[] = [];
  readonly signals: Signal[] = [];
  /** Indexes of signals by circuit and name. */
  readonly numbers = new Map<string, number>();
  readonly #digest: Digest;

  constructor(digest: Digest) {
    this.#digest = digest;
  }

  /** False when there are too many leaves. */
  circuit(id: string, parts: readonly Draft[], within: Subcircuit | undefined): boolean {
    for (const [at, part] of parts.entries()) {
      const own = `${id}.${at}`;
      const draft = part(own);
      if (draft.is === "leaf") this.#leaf(own, draft, id, within);
      else {
        const inner = { draft, circuit: id, outer: within, about: new Set<string>() };
        this.circuits.push(inner);
        if (!this.circuit(own, draft.parts, inner)) return false;
        if (inner.about.size > 0) within?.about.add(this.#summary(inner.about));
      }
      if (this.places.length > MAX_LEAVES) return false;
    }
    return true;
  }

  /** One digest for all that a circuit is about. A single element stays as it is: the circuit adds nothing to it. */
  #summary(about: ReadonlySet<string>): string {
    const [only = "", ...more] = [...about].sort();
    return more.length === 0 ? only : shortDigest(this.#digest, [only, ...more].join());
  }

  #leaf(id: string, draft: LeafDraft, circuit: string, within: Subcircuit | undefined): void {
    let place = { reads: circuit, writes: circuit, ins: draft.ins, outs: draft.outs };
    if (draft.kind === "nested_signal_ingress") {
      const signal = within?.draft.ins.get(draft.config.port_name);
      place = { ...place, reads: within?.circuit ?? circuit, ins: { signal } };
    } else if (draft.kind === "nested_signal_egress") {
      const signal = within?.draft.outs.get(draft.config.port_name);
      place = { ...place, writes: within?.circuit ?? circuit, outs: { signal } };
    }
    if (draft.about !== undefined) {
      within?.about.add(shortDigest(this.#digest, canonicalJson(draft.about)));
    }
    this.places.push({ id, draft, ...place, within });
    for (const name of Object.values(place.outs)) {
      if (name === undefined) continue;
      this.numbers.set(keyOf(place.writes, name), this.signals.length);
      this.signals.push({ circuit: place.writes, name });
    }
  }
}

function shortDigest(digest: Digest, text: string): string {
  return digest(text).slice(0, 16);
}

/**
 * Identities of leaves, which decide what state is kept when a policy changes. The identity of a circuit consists
 * of its kind, the signal names at its ports, what is measured and acted on inside, and the circuit around it.
 * That of a leaf consists of its kind, configuration, wires by name, and its circuit. Constants at the ports of
 * a circuit are not part of its identity, so state inside is kept when they change.
 */
function identitiesOf({ places, circuits }: Expansion, digest: Digest): readonly string[] {
  const disambiguate = new Disambiguator();
  const known = new Map<Subcircuit | undefined, string>([[undefined, ""]]);
  // Outer circuits come before the circuits inside them.
  for (const circuit of circuits) {
    const { kind, ins, outs } = circuit.draft;
    const names = [...ins].filter(([, source]) => typeof source === "string");
    const own = canonicalJson([kind, new Map(names), outs, [...circuit.about].sort()]);
    // A digest, because identities deep inside would otherwise contain all of those around them.
    known.set(
      circuit,
      shortDigest(digest, disambiguate.unique(`${known.get(circuit.outer)}/${own}`)),
    );
  }
  return places.map(({ draft: { kind, config, same, ins, outs }, within }) =>
    disambiguate.unique(
      `${known.get(within)}/${kind}${canonicalJson([same ?? config, ins, outs])}`,
    ),
  );
}

/** Numbers equal identities in their order, so that two components never share state. */
class Disambiguator {
  readonly #seen = new Map<string, number>();

  unique(base: string): string {
    const count = (this.#seen.get(base) ?? 0) + 1;
    this.#seen.set(base, count);
    return count === 1 ? base : `${base}#${count}`;
  }
}

function keyOf(circuit: string, name: string): string {
  return `${circuit}/${name}`;
}

/** Shared: most components have unconnected ports. */
const OPEN: Wire = { kind: "open" };

type Wired = Readonly<Record<string, readonly Wire[]>>;

function wiresOf({ id, ins, reads }: PlacedLeaf, numbers: ReadonlyMap<string, number>): Wired {
  const wire = (source: Source): Wire => {
    if (source === undefined) return OPEN;
    if (typeof source === "number") return { kind: "constant", value: source };
    const signal = numbers.get(keyOf(reads, source));
    if (signal === undefined)
      throw new Error(`${id} reads ${reads}/${source}, which no leaf writes`);
    return { kind: "signal", signal, looped: false };
  };
  const entries = Object.entries(ins).map(([port, source]) => {
    const sources = isList(source) ? source : [source];
    return [port, sources.map(wire)] as const;
  });
  return Object.fromEntries(entries);
}

function isList(source: Source | readonly Source[]): source is readonly Source[] {
  return Array.isArray(source);
}

/** One edge for each wire that reads a signal, in the order of leaves and their ports. */
function edgesOf(places: readonly PlacedLeaf[], wired: readonly Wired[]): readonly Edge[] {
  const writers: number[] = [];
  for (const [at, { outs }] of places.entries()) {
    for (const name of Object.values(outs)) if (name !== undefined) writers.push(at);
  }
  return wired.flatMap((ports, to) =>
    Object.values(ports).flatMap((wires) =>
      wires.flatMap((wire) => {
        const from = wire.kind === "signal" ? writers[wire.signal] : undefined;
        return from === undefined ? [] : [{ from, to }];
      }),
    ),
  );
}

/** `looped` has one entry for each edge, in the order of `edgesOf`. */
function finish(
  places: readonly PlacedLeaf[],
  wired: readonly Wired[],
  looped: readonly boolean[],
  identities: readonly string[],
): readonly Leaf[] {
  let edge = 0;
  let signal = 0;
  return places.map(({ id, draft, outs }, at): Leaf => {
    const inputs: Record<string, readonly Wire[]> = {};
    for (const [port, wires] of Object.entries(wired[at] ?? {})) {
      inputs[port] = wires.map((wire) =>
        wire.kind === "signal" ? { ...wire, looped: looped[edge++] ?? false } : wire,
      );
    }
    const outputs = Object.fromEntries(
      Object.entries(outs).map(([port, name]) => [port, name === undefined ? name : signal++]),
    );
    const identity = identities[at] ?? id;
    const { kind, config } = draft;
    // `config` has the type of `kind`, as in the draft.
    return { id, kind, config, inputs, outputs, identity } as Leaf;
  });
}
