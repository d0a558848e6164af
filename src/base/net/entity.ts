// A pod or service at an address, as service discovery knows it. Shared by kube, sync, agent and api.

/** A pod or a service at an address. */
export interface Entity {
  readonly uid: string;
  /** In canonical form. */
  readonly ipAddress: string;
  readonly name: string;
  readonly namespace: string;
  /** "" where it runs on no node. */
  readonly nodeName: string;
  /** Fully qualified names, in order. */
  readonly services: readonly string[];
}
