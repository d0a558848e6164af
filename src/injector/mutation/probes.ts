// Probes and hooks by which a kubelet asks the application behind the injected Envoy. The application may listen on 127.0.0.1
// only, where the kubelet, which asks the pod's address, does not reach it. So the kubelet asks a listener of Envoy, which asks
// the application and no policy. The listener passes on what the probes ask, letter by letter, and nothing else: otherwise
// everybody could go round the policies there.

import { type Container, isObject, type Json, type JsonObject, listAt, text } from "../pod.ts";

/** What a probe or a hook asks of the application. */
export type Question =
  | { readonly kind: "HTTP" | "HTTPS"; readonly path: string }
  | { readonly kind: "GRPC" }
  /** Whether it accepts connections; `seconds` is the time between two probes. */
  | { readonly kind: "TCP"; readonly seconds: number };

/** Envoy's listener for kubelets. */
export interface ProbeListener {
  readonly port: number;
  readonly questions: readonly Question[];
}

/** Paths at the listener that stand for something else than the same path of the application in cleartext. */
export const HTTPS_PREFIX = "/.sluice/https";
export const TCP_PATH = "/.sluice/tcp";

const PROBES = ["startupProbe", "readinessProbe", "livenessProbe"] as const;
const HOOKS = ["postStart", "preStop"] as const;
/** The default of Kubernetes. */
const PERIOD_SECONDS = 10;

/** A container whose probes and hooks of the application's port ask the listener, and what they ask there. */
export function askListener(
  container: Container,
  application: number,
  listener: number,
): { readonly container: Container; readonly questions: readonly Question[] } {
  const questions: Question[] = [];
  const moved = (owner: JsonObject, names: readonly string[]): JsonObject => {
    const changed = names.flatMap((name) => {
      const handler = owner[name];
      if (!isObject(handler)) return [];
      const found = askAt(handler, container, application, listener);
      if (found === undefined) return [];
      questions.push(found.question);
      return [[name, found.handler] as const];
    });
    return { ...owner, ...Object.fromEntries(changed) };
  };
  const { lifecycle } = container;
  const hooks = isObject(lifecycle) ? { lifecycle: moved(lifecycle, HOOKS) } : {};
  const probed = moved({ ...container, ...hooks }, PROBES);
  return { container: { ...probed, name: container.name }, questions };
}

/** Undefined where it asks somebody else. */
function askAt(
  handler: JsonObject,
  container: Container,
  application: number,
  listener: number,
): { readonly handler: JsonObject; readonly question: Question } | undefined {
  const { httpGet, tcpSocket, grpc, ...rest } = handler;
  const asks = (action: Json | undefined): action is JsonObject =>
    isObject(action) &&
    text(action["host"]) === "" &&
    portNumber(container, action["port"]) === application;
  if (asks(httpGet)) {
    const path = pathOf(text(httpGet["path"]));
    const isTls = text(httpGet["scheme"]) === "HTTPS";
    const kind = isTls ? "HTTPS" : "HTTP";
    const asked = isTls ? `${HTTPS_PREFIX}${path}` : path;
    const action = { ...httpGet, path: asked, port: listener, scheme: "HTTP" };
    return { handler: { ...rest, httpGet: action }, question: { kind, path } };
  }
  if (asks(grpc))
    return { handler: { ...rest, grpc: { ...grpc, port: listener } }, question: { kind: "GRPC" } };
  if (asks(tcpSocket)) {
    const { periodSeconds } = handler;
    const seconds = typeof periodSeconds === "number" ? periodSeconds : PERIOD_SECONDS;
    const action = { path: TCP_PATH, port: listener, scheme: "HTTP" };
    return { handler: { ...rest, httpGet: action }, question: { kind: "TCP", seconds } };
  }
  return undefined;
}

function portNumber(container: Container, port: Json | undefined): number {
  const declared = listAt(container["ports"]).find(({ name }) => name === port && port !== "");
  return Number(declared?.["containerPort"] ?? port);
}

/** The path as a kubelet sends it: it escapes what no URL may hold. What we escape here, it leaves as it is. */
function pathOf(path: string): string {
  const [whole = ""] = path.split("#", 1);
  const escaped = whole.replace(/[^\w\-.~!$&'()*+,;=:@%/?]/gu, (each) => encodeURIComponent(each));
  return escaped.startsWith("/") ? escaped : `/${escaped}`;
}
