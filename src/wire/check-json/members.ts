// The members of a CheckHTTPRequest by field number, for the fast reader and for the general one.

export const CHECK_HTTP_MEMBERS = {
  source: 1,
  destination: 2,
  request: 3,
  control_point: 4,
  ramp_mode: 5,
  expect_end: 6,
} as const;

export const SOCKET_MEMBERS = { protocol: 1, address: 2, port: 3 } as const;

/** Field numbers of the described HTTP request. */
export const REQUEST_MEMBERS = {
  method: 1,
  headers: 2,
  path: 3,
  host: 4,
  scheme: 5,
  size: 6,
  protocol: 7,
  body: 8,
} as const;
