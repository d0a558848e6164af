// Redirects the kubelet's probes and hooks of the application behind the injected Envoy. The application may listen on
// 127.0.0.1 only, where the kubelet cannot reach it. So the kubelet asks a listener of Envoy, which asks the application
// without consulting policies. The listener forwards exactly the requests of the probes; anything wider would bypass the
// policies.

import { type Container, isObject, type Json, type JsonObject, listAt, text } from "../pod.ts";

/** The request of a probe or a hook. */
export type ProbeRequest =
  | { readonly kind: "HTTP" | "HTTPS"; readonly path: string }
  | { readonly kind: "GRPC" }
  /** A connection; `seconds` is the period of the probe. */
  | { readonly kind: "TCP"; readonly seconds: number };

/** Envoy's listener for kubelets. */
export interface ProbeListener {
  readonly port: number;
  readonly requests: readonly ProbeRequest[];
}

/** Paths of the listener for probes over TLS and TCP. Other paths are those of the application. */
export const HTTPS_PREFIX = "/.sluice/https";
export const TCP_PATH = "/.sluice/tcp";

const PROBES = ["startupProbe", "readinessProbe", "livenessProbe"] as const;
const HOOKS = ["postStart", "preStop"] as const;
/** The default of Kubernetes. */
const PERIOD_SECONDS = 10;

/** Redirects the probes and hooks of the application's port to the listener. Also returns their requests. */
export function redirectToListener(
  container: Container,
  application: number,
  listener: number,
): { readonly container: Container; readonly requests: readonly ProbeRequest[] } {
  const requests: ProbeRequest[] = [];
  const moved = (owner: JsonObject, names: readonly string[]): JsonObject => {
    const changed = names.flatMap((name) => {
      const handler = owner[name];
      if (!isObject(handler)) return [];
      const found = redirected(handler, container, application, listener);
      if (found === undefined) return [];
      requests.push(found.request);
      return [[name, found.handler] as const];
    });
    return { ...owner, ...Object.fromEntries(changed) };
  };
  const { lifecycle } = container;
  const hooks = isObject(lifecycle) ? { lifecycle: moved(lifecycle, HOOKS) } : {};
  const probed = moved({ ...container, ...hooks }, PROBES);
  return { container: { ...probed, name: container.name }, requests };
}

/** Undefined for another port or host. */
function redirected(
  handler: JsonObject,
  container: Container,
  application: number,
  listener: number,
): { readonly handler: JsonObject; readonly request: ProbeRequest } | undefined {
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
    return { handler: { ...rest, httpGet: action }, request: { kind, path } };
  }
  if (asks(grpc))
    return { handler: { ...rest, grpc: { ...grpc, port: listener } }, request: { kind: "GRPC" } };
  if (asks(tcpSocket)) {
    const { periodSeconds } = handler;
    const seconds = typeof periodSeconds === "number" ? periodSeconds : PERIOD_SECONDS;
    const action = { path: TCP_PATH, port: listener, scheme: "HTTP" };
    return { handler: { ...rest, httpGet: action }, request: { kind: "TCP", seconds } };
  }
  return undefined;
}

function portNumber(container: Container, port: Json | undefined): number {
  const declared = listAt(container["ports"]).find(({ name }) => name === port && port !== "");
  return Number(declared?.["containerPort"] ?? port);
}

/** The path as kubelets send it: they escape characters that URLs may not contain, and keep escaped ones. */
function pathOf(path: string): string {
  const [whole = ""] = path.split("#", 1);
  const escaped = whole.replace(/[^\w\-.~!$&'()*+,;=:@%/?]/gu, (each) => encodeURIComponent(each));
  return escaped.startsWith("/") ? escaped : `/${escaped}`;
}
