// Drafts become a plan: composites opened depth first, ids by position, signals resolved within the circuit
// that holds them, loops broken, and an order in which every reading is of the same tick.

import type { CircuitPlan, Leaf, Signal, Wire } from "#circuit/plan.ts";
import { canonicalJson } from "../canonical.ts";
import type { Digest } from "../compiled.ts";
import type { Actuating } from "./configs.ts";
import type { CircuitDraft, Draft, LeafDraft, Source, Sources, Targets } from "./draft.ts";
import { type Edge, loopedEdges } from "./loops.ts";
import { orderOf } from "./order.ts";

/** Far above any real policy; composites are counted by what they hold. */
export const MOST_LEAVES = 20_000;

export interface Flat {
  readonly plan: Pick<CircuitPlan, "signals" | "leaves" | "order">;
  readonly actuating: readonly Actuating[];
}

/** Undefined when there are more than MOST_LEAVES. */
export function flatten(parts: readonly Draft[], digest: Digest): Flat | undefined {
  const opened = new Opening(digest);
  const all = opened.circuit(ROOT, parts, undefined);
  if (!all) return undefined;
  const wired = opened.places.map((place) => wiresOf(place, opened.numbers));
  const edges = edgesOf(opened.places, wired);
  const looped = loopedEdges(opened.places.length, edges);
  const kept = edges.filter((_, at) => !looped[at]);
  const leaves = finish(opened.places, wired, looped, identitiesOf(opened, digest));
  const order = orderOf(opened.places.length, kept);
  const actuating = opened.places.flatMap(({ draft }) => draft.actuates ?? []);
  return { plan: { signals: opened.signals, leaves, order }, actuating };
}

const ROOT = "root";

interface Place {
  readonly id: string;
  readonly draft: LeafDraft;
  /** The circuits whose signals its in- and out-ports name: not one and the same for ingress and egress. */
  readonly reads: string;
  readonly writes: string;
  readonly ins: Sources;
  readonly outs: Targets;
  /** The circuit that it stands in; undefined is the root. */
  readonly within: Within | undefined;
}

/** A circuit below the root. */
interface Within {
  readonly draft: CircuitDraft;
  /** The circuit around it. */
  readonly circuit: string;
  readonly outer: Within | undefined;
  /** What leaves and circuits inside measure and act on, each shortened. */
  readonly about: Set<string>;
}

class Opening {
  readonly places: Place[] = [];
  readonly circuits: Within[] = [];
  readonly signals: Signal[] = [];
  /** Numbers of signals by circuit and name. */
  readonly numbers = new Map<string, number>();
  readonly #digest: Digest;

  constructor(digest: Digest) {
    this.#digest = digest;
  }

  /** False when there are too many. */
  circuit(id: string, parts: readonly Draft[], within: Within | undefined): boolean {
    for (const [at, draw] of parts.entries()) {
      const own = `${id}.${at}`;
      const draft = draw(own);
      if (draft.is === "leaf") this.#leaf(own, draft, id, within);
      else {
        const inner = { draft, circuit: id, outer: within, about: new Set<string>() };
        this.circuits.push(inner);
        if (!this.circuit(own, draft.parts, inner)) return false;
        if (inner.about.size > 0) within?.about.add(this.#gist(inner.about));
      }
      if (this.places.length > MOST_LEAVES) return false;
    }
    return true;
  }

  /** One text for all that a circuit is about. Of a single thing, that thing: a circuit around it adds nothing. */
  #gist(about: ReadonlySet<string>): string {
    const [only = "", ...more] = [...about].sort();
    return more.length === 0 ? only : short(this.#digest, [only, ...more].join());
  }

  #leaf(id: string, draft: LeafDraft, circuit: string, within: Within | undefined): void {
    let place = { reads: circuit, writes: circuit, ins: draft.ins, outs: draft.outs };
    if (draft.kind === "nested_signal_ingress") {
      const signal = within?.draft.ins.get(draft.config.port_name);
      place = { ...place, reads: within?.circuit ?? circuit, ins: { signal } };
    } else if (draft.kind === "nested_signal_egress") {
      const signal = within?.draft.outs.get(draft.config.port_name);
      place = { ...place, writes: within?.circuit ?? circuit, outs: { signal } };
    }
    if (draft.about !== undefined) {
      within?.about.add(short(this.#digest, canonicalJson(draft.about)));
    }
    this.places.push({ id, draft, ...place, within });
    for (const name of Object.values(place.outs)) {
      if (name === undefined) continue;
      this.numbers.set(keyOf(place.writes, name), this.signals.length);
      this.signals.push({ circuit: place.writes, name });
    }
  }
}

function short(digest: Digest, text: string): string {
  return digest(text).slice(0, 16);
}

/**
 * A circuit is its kind, the names at its ports and what is measured and acted on inside, within the circuit
 * around it; a leaf is its kind, configuration and wires by name, within its circuit. Numbers at the ports of
 * a circuit are not part of it: what is inside goes on when they change.
 */
function identitiesOf({ places, circuits }: Opening, digest: Digest): readonly string[] {
  const tell = new Ties();
  const known = new Map<Within | undefined, string>([[undefined, ""]]);
  // Those around come before those inside.
  for (const circuit of circuits) {
    const { kind, ins, outs } = circuit.draft;
    const names = [...ins].filter(([, source]) => typeof source === "string");
    const own = canonicalJson([kind, new Map(names), outs, [...circuit.about].sort()]);
    // Shortened: what is deep inside would carry all that is around it.
    known.set(circuit, short(digest, tell.apart(`${known.get(circuit.outer)}/${own}`)));
  }
  return places.map(({ draft: { kind, config, same, ins, outs }, within }) =>
    tell.apart(`${known.get(within)}/${kind}${canonicalJson([same ?? config, ins, outs])}`),
  );
}

/** Twins are told apart by their order, circuits as a whole: state of two is never mixed. */
class Ties {
  readonly #seen = new Map<string, number>();

  apart(base: string): string {
    const tie = (this.#seen.get(base) ?? 0) + 1;
    this.#seen.set(base, tie);
    return tie === 1 ? base : `${base}#${tie}`;
  }
}

function keyOf(circuit: string, name: string): string {
  return `${circuit}/${name}`;
}

type Wired = Readonly<Record<string, readonly Wire[]>>;

function wiresOf({ id, ins, reads }: Place, numbers: ReadonlyMap<string, number>): Wired {
  const wire = (source: Source): Wire => {
    if (source === undefined) return { kind: "open" };
    if (typeof source === "number") return { kind: "constant", value: source };
    const signal = numbers.get(keyOf(reads, source));
    if (signal === undefined) throw new Error(`${id} reads ${reads}/${source}: nobody writes it`);
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

/** One for each wire that reads a signal, in order of leaves and their ports. */
function edgesOf(places: readonly Place[], wired: readonly Wired[]): readonly Edge[] {
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

/** `looped` tells it of the edges, which stand in the order of the wires. */
function finish(
  places: readonly Place[],
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
    // One kind and the configuration of that kind, as in the draft.
    return { id, kind, config, inputs, outputs, identity } as Leaf;
  });
}
