// The pods of a namespace that run or may still run, page by page, so that a namespace with many pods takes no more memory.

import type { KubeClient } from "#kube/api/client.ts";
import type { KubeObject, Resource } from "#kube/api/objects.ts";

const PODS: Resource = { group: "", version: "v1", plural: "pods" };
/** The API server leaves out what has ended, such as the pods of finished jobs. */
const NOT_OVER = "status.phase!=Succeeded,status.phase!=Failed";

/** Throws a Fault when the API server does not answer. */
export async function* livingPods(
  client: KubeClient,
  namespace: string,
  signal: AbortSignal,
): AsyncGenerator<KubeObject> {
  const selection = { namespace, fieldSelector: NOT_OVER };
  let from = "";
  do {
    const page = await client.page(PODS, selection, from, signal);
    yield* page.items;
    from = page.next;
  } while (from !== "");
}
