// A cluster of one node whose pods live: a real control plane, and the kubelet of the tests. Only on a machine of its own.

import type { Ending } from "../../kit/ending.ts";
import { type ControlPlane, startControlPlane } from "../../kit/kube/control-plane.ts";
import { IMAGES, type Images } from "./container/images.ts";
import { type Kubelet, startKubelet } from "./kubelet.ts";
import { NODE_ADDRESS, NodeNetwork } from "./node/network.ts";

export interface LivingCluster extends ControlPlane {
  readonly kubelet: Kubelet;
}

/** Starts a cluster that runs until the test ends. `images` are those of applications, beside what the charts name. */
export async function startLivingCluster(
  test: Ending,
  images: Images = {},
): Promise<LivingCluster> {
  const network = await NodeNetwork.open();
  const plane = await startControlPlane(test, {
    parts: ["controller-manager", "scheduler"],
    // It listens on loopback; what pods see is an endpoint of its Service.
    flags: [`--advertise-address=${NODE_ADDRESS}`],
  });
  const { client, logs } = plane;
  const all = { ...IMAGES, ...images };
  return { ...plane, kubelet: await startKubelet(test, { client, network, images: all, logs }) };
}
