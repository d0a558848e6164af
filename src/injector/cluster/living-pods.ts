// The pods of a namespace that run or may still run.

import type { KubeClient } from "#kube/api/client.ts";
import type { KubeObject, Resource } from "#kube/api/objects.ts";

const PODS: Resource = { group: "", version: "v1", plural: "pods" };
/** Excludes pods that have ended, such as those of finished jobs. */
const NOT_OVER = "status.phase!=Succeeded,status.phase!=Failed";

/** @throws Fault when the API server does not answer */
export function livingPods(
  client: KubeClient,
  namespace: string,
  signal: AbortSignal,
): AsyncGenerator<KubeObject> {
  return client.list(PODS, { namespace, fieldSelector: NOT_OVER }, signal);
}
