// The network of a node: a bridge, and for each pod a network namespace with an address of its own on it.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

export const NODE_ADDRESS = "10.244.0.1";
const BRIDGE = "pods";

export interface PodNetwork {
  readonly address: string;
  /** Name of the network namespace. */
  readonly name: string;
  /** Path of the network namespace. */
  readonly path: string;
}

export class NodeNetwork {
  #last = 1;

  /** Makes the bridge. Only one can be open on a machine. */
  static async open(): Promise<NodeNetwork> {
    await shell(
      `ip link add ${BRIDGE} type bridge`,
      `ip addr add ${NODE_ADDRESS}/16 dev ${BRIDGE}`,
      `ip link set ${BRIDGE} up`,
    );
    return new NodeNetwork();
  }

  /** No address is given twice, so that what still calls a pod that has ended reaches nobody. */
  async addPod(): Promise<PodNetwork> {
    const number = ++this.#last;
    const name = `pod${number}`;
    const address = `10.244.${number >> 8}.${number & 255}`;
    await shell(
      `ip netns add ${name}`,
      `ip link add ${name} type veth peer name eth0 netns ${name}`,
      `ip link set ${name} master ${BRIDGE} up`,
      `ip -n ${name} addr add ${address}/16 dev eth0`,
      `ip -n ${name} link set eth0 up`,
      `ip -n ${name} link set lo up`,
      `ip -n ${name} route add default via ${NODE_ADDRESS}`,
    );
    return { name, address, path: `/run/netns/${name}` };
  }

  /** The veth pair goes with the namespace. */
  async removePod({ name }: PodNetwork): Promise<void> {
    await shell(`ip netns del ${name}`);
  }

  /** An address that processes of the node can listen on and that pods reach. */
  async addAddress(address: string): Promise<void> {
    await shell(`ip addr replace ${address}/32 dev ${BRIDGE}`);
  }

  async removeAddress(address: string): Promise<void> {
    await shell(`ip addr del ${address}/32 dev ${BRIDGE}`);
  }
}

async function shell(...lines: readonly string[]): Promise<void> {
  await run("sh", ["-c", lines.join(" && ")]);
}
