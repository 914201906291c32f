// A real identity provider (oidc-provider) that a test can make unavailable or silent, and whose keys it can rotate.
//
//     provider.mjs [CERTIFICATE KEY]
//
// Prints {"issuer": URL, "secure": URL} once it listens, the latter if it was given files for TLS: it then answers
// there as well. In addition to the provider's endpoints, POST /control accepts one JSON object:
//   {"mode": "up" | "down" | "silent" | "huge"}   how all requests are answered from now on; "huge" applies only to keys
//   {"wants": TOKEN}                              requests for metadata or keys need that token from now on
//   {"rotate": true}                              the provider gets new keys, and forgets the old ones
//   {"mint": {header, claims}, "with": KIND}      a token signed with the provider's key for header.alg, unless KIND
//                                                 is "stranger" (another key), "public" (HMAC with the public key)
//                                                 or "nothing"
//   {"seen": PATH}                                how often that path was requested
// The packages are those in the folder MCPM_TEST_NODE_MODULES.
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.MCPM_TEST_NODE_MODULES}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { default: Provider } = await load("oidc-provider");
const jose = await load("jose");

const ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "EdDSA"];
const robot = (client_id) => ({
  client_id,
  client_secret: `${client_id}-secret`,
  grant_types: ["client_credentials"],
  redirect_uris: [],
  response_types: [],
});
// Additional claims in the tokens of some clients.
const CLAIMS = {
  robot: { groups: ["staff"], level: 3, name: "Robbie", email: "robbie@team.example", badge: "canary-of-a-claim" },
  other: { groups: ["guests"], level: 1 },
};
CLAIMS.opaque = CLAIMS.robot;
// The parent process reads one line and closes the pipe, so a later warning of the provider would end this process.
for (const name of ["debug", "info", "warn", "error"]) console[name] = () => {};

let generation = 0;
let keys;
// The public part of a key.
const open = ({ d, p, q, dp, dq, qi, ...known }) => known;
let answer;
let mode = "up";
let wanted;
const seen = new Map();

const generate = async (suffix) => {
  const made = {};
  for (const alg of ALGORITHMS) {
    const { privateKey } = await jose.generateKeyPair(alg, { extractable: true });
    made[alg] = { ...(await jose.exportJWK(privateKey)), alg, use: "sig", kid: `${alg}-${suffix}` };
  }
  return made;
};
const strangers = await generate("stranger");

// The client ID metadata document; requests of the provider for it are answered in this file.
const DOCUMENT = "https://mcpm.example/client.json";
const describe = () =>
  Response.json({
    client_id: DOCUMENT,
    client_name: "mcpm",
    application_type: "native",
    grant_types: ["authorization_code", "refresh_token"],
    redirect_uris: ["http://localhost/callback"],
    token_endpoint_auth_method: "none",
  });

const renew = async (issuer) => {
  generation += 1;
  keys = await generate(generation);
  const provider = new Provider(issuer, {
    jwks: { keys: Object.values(keys) },
    cookies: { keys: ["test"] },
    clients: [robot("robot"), robot("other"), robot("opaque"), robot("opaque-other"), robot("proxy")],
    scopes: ["openid", "offline_access", "mcp"],
    extraTokenClaims: (_, token) => CLAIMS[token.clientId],
    clientDefaults: { id_token_signed_response_alg: "RS256" },
    fetch: (url, options) => (String(url) === DOCUMENT ? describe() : fetch(url, options)),
    features: {
      clientIdMetadataDocument: { enabled: true, ack: "draft-02" },
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      introspection: { enabled: true },
      registration: { enabled: true },
      devInteractions: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource, client) => ({
          scope: "openid mcp",
          audience: resource,
          accessTokenTTL: 600,
          accessTokenFormat: client.clientId.startsWith("opaque") ? "opaque" : "jwt",
          jwt: { sign: { alg: "RS256" } },
        }),
      },
    },
  });
  answer = provider.callback();
};

const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
const mint = async ({ header, claims }, kind) => {
  const message = `${encode(header)}.${encode(claims)}`;
  if (kind === "nothing") return `${message}.`;
  if (kind === "public") {
    const { kty, n, e } = keys.RS256;
    const pem = await jose.exportSPKI(await jose.importJWK({ kty, n, e }, "RS256"));
    return `${message}.${createHmac("sha256", pem).update(message).digest("base64url")}`;
  }
  const key = (kind === "stranger" ? strangers : keys)[header.alg];
  const signer = new jose.CompactSign(Buffer.from(JSON.stringify(claims)));
  return signer.setProtectedHeader(header).sign(await jose.importJWK(key, header.alg));
};

const control = async (issuer, asked) => {
  if (asked.mode) mode = asked.mode;
  if (asked.wants) wanted = asked.wants;
  if (asked.rotate) await renew(issuer);
  if (asked.mint) return mint(asked.mint, asked.with);
  if (asked.seen) return seen.get(asked.seen) ?? 0;
  return null;
};

const serve = async (request, response) => {
  const { pathname } = new URL(request.url, "http://provider");
  if (pathname === "/control") {
    let body = "";
    for await (const piece of request) body += piece;
    const said = await control(issuer, JSON.parse(body)).catch((error) => ({ error: String(error) }));
    response.setHeader("content-type", "application/json").end(JSON.stringify(said));
    return;
  }
  seen.set(pathname, (seen.get(pathname) ?? 0) + 1);
  if (mode === "down") {
    response.writeHead(503).end();
  } else if (wanted && request.method === "GET" && request.headers.authorization !== `Bearer ${wanted}`) {
    response.writeHead(401).end();
  } else if (mode === "huge" && pathname === "/jwks") {
    response.setHeader("content-type", "application/json");
    // The correct keys, in a document that is too large.
    response.end(JSON.stringify({ keys: Object.values(keys).map(open), padding: "x".repeat(4 << 20) }));
  } else if (mode !== "silent") {
    answer(request, response);
  }
};
const server = createServer(serve);
const listen = (one) => new Promise((resolve) => one.listen(0, "127.0.0.1", () => resolve(one.address().port)));
const issuer = `http://127.0.0.1:${await listen(server)}`;
await renew(issuer);
const [certificate, key] = process.argv.slice(2);
let secure;
if (key) {
  const files = { cert: readFileSync(certificate), key: readFileSync(key) };
  secure = `https://127.0.0.1:${await listen(createSecureServer(files, serve))}`;
}
console.log(JSON.stringify({ issuer, secure }));
