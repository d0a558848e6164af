// The frozen rules that flows are judged by: compiled once when rules arrive, swapped whole. Control points
// whose rules did not change are taken over as they are, so an edit costs only what it touches.

import { STAGES } from "./check.ts";
import { type Classifier, compileClassifier } from "./classify.ts";
import { type LabelKey, Slots } from "./label.ts";
import type { Limiter } from "./limit.ts";
import type { ClassifierRule, FluxMeterRule, LimiterRule, Rule, SelectorRule } from "./rules.ts";
import { type Candidate, candidates, namedServices, type Selected, select } from "./select.ts";

/** What is asked of the flows of one control point that belong to one set of services. */
export interface Lane {
  readonly classifiers: readonly Candidate<Classifier>[];
  readonly meters: readonly Candidate<string>[];
  /** By position in STAGES; within a stage in component order. */
  readonly limiters: readonly (readonly Candidate<Limiter>[])[];
}

export interface Point {
  readonly keys: readonly LabelKey[];
  /** The rules it was compiled from: equal lists mean an equal point. */
  readonly rules: readonly Rule[];
  readonly limiters: readonly Limiter[];
  lane(services: readonly string[]): Lane;
}

export interface Plan {
  point(controlPoint: string): Point;
  readonly points: ReadonlyMap<string, Point>;
}

/** Binds a limiter rule to its state for one control point. */
export type Bind = (rule: LimiterRule, slots: Slots) => Limiter;

const NOTHING: Lane = Object.freeze({
  classifiers: [],
  meters: [],
  limiters: STAGES.map(() => []),
});
const EMPTY: Point = Object.freeze({ keys: [], rules: [], limiters: [], lane: () => NOTHING });

export const EMPTY_PLAN: Plan = Object.freeze({ point: () => EMPTY, points: new Map() });

/** Compiles rules for the agents of one group. Throws a Fault when a rule does not compile. */
export function compilePlan(
  rules: readonly Rule[],
  group: string,
  bind: Bind,
  previous: Plan = EMPTY_PLAN,
): Plan {
  const byPoint = new Map<string, Rule[]>();
  for (const rule of [...rules].sort(byComponent)) {
    for (const name of controlPoints(rule, group)) {
      const here = byPoint.get(name);
      if (here === undefined) byPoint.set(name, [rule]);
      else here.push(rule);
    }
  }
  const points = new Map<string, Point>();
  for (const [name, here] of byPoint) {
    const old = previous.points.get(name);
    const same = old !== undefined && sameList(old.rules, here);
    points.set(name, same ? old : compilePoint(name, here, group, bind));
  }
  return Object.freeze({ point: (name: string) => points.get(name) ?? EMPTY, points });
}

function compilePoint(name: string, rules: readonly Rule[], group: string, bind: Bind): Point {
  const slots = new Slots();
  const chosen = <T>(item: T, { selectors }: Rule): Selected<T> => {
    const ours = selectors.filter((selector) => isOurs(selector, name, group));
    return select(item, ours, slots);
  };
  const classifiers: Selected<Classifier>[] = [];
  const meters: Selected<string>[] = [];
  const limiters: Selected<Limiter>[] = [];
  for (const rule of rules) {
    if (rule.kind === "classifier") classifiers.push(chosen(compileClassifier(rule, slots), rule));
    else if (rule.kind === "flux_meter") meters.push(chosen(rule.name, rule));
    else limiters.push(chosen(bind(rule, slots), rule));
  }
  const stages = STAGES.map(({ limiters: kinds }) =>
    limiters.filter(({ item }) => kinds.includes(item.component.kind)),
  );
  const laneFor = (services: ReadonlySet<string>): Lane =>
    Object.freeze({
      classifiers: candidates(classifiers, services),
      meters: candidates(meters, services),
      limiters: stages.map((stage) => candidates(stage, services)),
    });
  const named = namedServices([...classifiers, ...meters, ...limiters]);
  return Object.freeze({
    keys: slots.keys,
    rules,
    limiters: limiters.map(({ item }) => item),
    lane: lanes(named, laneFor),
  });
}

/** Flows of several known services are rare; the lanes of this many combinations are remembered. */
const REMEMBERED_LANES = 256;

/** A lane for each service that rules name; those of several at once are made when they first come. */
function lanes(named: ReadonlySet<string>, laneFor: (services: ReadonlySet<string>) => Lane) {
  const any = laneFor(new Set());
  if (named.size === 0) return () => any;
  const made = new Map([...named].map((service) => [service, laneFor(new Set([service]))]));
  const bound = made.size + REMEMBERED_LANES;
  return (services: readonly string[]): Lane => {
    const known = services.filter((service) => named.has(service));
    if (known.length === 0) return any;
    const name = known.join("\n");
    const remembered = made.get(name);
    if (remembered !== undefined) return remembered;
    const lane = laneFor(new Set(known));
    if (made.size < bound) made.set(name, lane);
    return lane;
  };
}

function isOurs(selector: SelectorRule, controlPoint: string, group: string): boolean {
  return selector.controlPoint === controlPoint && selector.agentGroup === group;
}

function controlPoints(rule: Rule, group: string): ReadonlySet<string> {
  const ours = rule.selectors.filter(({ agentGroup }) => agentGroup === group);
  return new Set(ours.map(({ controlPoint }) => controlPoint));
}

function sameList(a: readonly Rule[], b: readonly Rule[]): boolean {
  return a.length === b.length && a.every((rule, at) => rule === b[at]);
}

/** Policies by name; components of a policy by their place in the circuit (`root.2` before `root.10`). */
export function byComponent(a: Rule, b: Rule): number {
  return compareText(a.policyName, b.policyName) || compareText(place(a), place(b));
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function place(rule: ClassifierRule | FluxMeterRule | LimiterRule): string {
  if (rule.kind === "flux_meter") return rule.name;
  const id = rule.kind === "classifier" ? `${rule.index}` : rule.componentId;
  return id.replace(/\d+/g, (digits) => digits.padStart(9, "0"));
}
