// What service discovery knows about an address: the type that those who discover, store, look up and show it share.

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
