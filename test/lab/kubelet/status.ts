// The status of a pod, as the kubelet reports it.

import { type Container, type ContainerState, now } from "./container/container.ts";
import { NODE_ADDRESS } from "./node/network.ts";
import type { PodObject, RestartPolicy } from "./objects.ts";

export interface PodParts {
  /** In the order of the pod. */
  readonly init: readonly Container[];
  readonly main: readonly Container[];
  readonly address: string | undefined;
  readonly startTime: string;
}

interface Condition {
  readonly type: string;
  readonly status: "True" | "False";
  readonly reason?: string;
  readonly message?: string;
  readonly lastTransitionTime: string;
}

export function isSidecar({ spec }: Container): boolean {
  return spec.restartPolicy === "Always";
}

/** The next status; `before` are the conditions that it has. */
export function statusOf(
  pod: PodObject,
  parts: PodParts,
  before: readonly Condition[],
): Readonly<Record<string, unknown>> {
  const { init, main, address, startTime } = parts;
  const phase = phaseOf(parts, pod.spec.restartPolicy ?? "Always");
  const running = [...init.filter(isSidecar), ...main];
  const unready = running.filter(({ isReady }) => !isReady).map(({ spec }) => spec.name);
  const initialized = init.every((each) => (isSidecar(each) ? each.isStarted : hasSucceeded(each)));
  const isOver = phase === "Succeeded" || phase === "Failed";
  const reason = isOver ? "PodCompleted" : "ContainersNotReady";
  const message = `containers with unready status: [${unready.join(" ")}]`;
  const ready = unready.length === 0 && !isOver ? {} : { reason, message };
  const truths: readonly (readonly [string, boolean, object])[] = [
    ["PodReadyToStartContainers", address !== undefined, {}],
    ["Initialized", initialized || isOver, {}],
    ["ContainersReady", !("reason" in ready), ready],
    ["Ready", !("reason" in ready), ready],
  ];
  const conditions = truths.map(([type, isTrue, more]) => {
    const status = isTrue ? "True" : "False";
    const old = before.find((each) => each.type === type);
    const lastTransitionTime = old?.status === status ? old.lastTransitionTime : now();
    return { type, status, lastTransitionTime, ...more };
  });
  const others = before.filter(({ type }) => !truths.some(([own]) => own === type));
  return {
    phase,
    conditions: [...others, ...conditions],
    hostIP: NODE_ADDRESS,
    hostIPs: [{ ip: NODE_ADDRESS }],
    ...(address === undefined ? {} : { podIP: address, podIPs: [{ ip: address }] }),
    startTime,
    initContainerStatuses: init.map((each) => containerStatus(pod, each)),
    containerStatuses: main.map((each) => containerStatus(pod, each)),
  };
}

/** Summary of a status that makes a report necessary when it changes: two statuses with the same summary say the same. */
// biome-ignore lint/suspicious/noExplicitAny: a status of this kubelet or of the API
export function summaryOf(status: any): string {
  const conditions = (status?.conditions ?? []).map((each: Condition) => [each.type, each.status]);
  const containers = (all: readonly Summarized[] = []) =>
    all.map(({ name, ready, started, restartCount, state }) => [
      name,
      ready,
      started,
      restartCount,
      Object.entries(state ?? {}).map(([kind, { reason }]) => [kind, reason]),
    ]);
  return JSON.stringify([
    status?.phase,
    status?.podIP,
    conditions.sort(),
    containers(status?.initContainerStatuses),
    containers(status?.containerStatuses),
  ]);
}

interface Summarized {
  readonly name: string;
  readonly ready: boolean;
  readonly started: boolean;
  readonly restartCount: number;
  readonly state?: Readonly<Record<string, { readonly reason?: string }>>;
}

function phaseOf({ init, main }: PodParts, restarts: RestartPolicy): string {
  const over = main.every(({ state }) => state.kind === "terminated");
  if (over && restarts !== "Always") {
    if (main.every(hasSucceeded)) return "Succeeded";
    if (restarts === "Never") return "Failed";
  }
  if (restarts === "Never" && init.some((each) => !isSidecar(each) && hasFailed(each)))
    return "Failed";
  const begun = ({ state, lastState }: Container) =>
    state.kind !== "waiting" || lastState !== undefined;
  return main.every(begun) ? "Running" : "Pending";
}

function hasSucceeded({ state }: Container): boolean {
  return state.kind === "terminated" && state.exitCode === 0;
}

function hasFailed({ state }: Container): boolean {
  return state.kind === "terminated" && state.exitCode !== 0;
}

function containerStatus(pod: PodObject, container: Container): object {
  const { spec, restartCount, isReady, isStarted, state, lastState } = container;
  return {
    name: spec.name,
    image: spec.image,
    imageID: `test://${spec.image}`,
    containerID: `test://${pod.metadata.uid}/${spec.name}/${restartCount}`,
    // An init container that has ended well counts as ready.
    ready: isReady || (hasSucceeded(container) && !isSidecar(container)),
    started: isStarted,
    restartCount,
    state: stateOf(state),
    lastState: lastState === undefined ? {} : stateOf(lastState),
  };
}

function stateOf({ kind, ...state }: ContainerState): object {
  return { [kind]: state };
}
