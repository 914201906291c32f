// The TypeScript SDK's client logs in at the server that the proxy's metadata names, and lists the tools of the server at
// URL.
//
//     login_client.mjs URL
//
// The SDK discovers the authorization server, registers, and requests a code with PKCE and a resource; a script in place of
// a browser follows the provider's real pages and fills in its real forms. Prints {"tools", "authorization", "scope"}.
// The packages are those in the folder MCPM_TEST_NODE_MODULES.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.MCPM_TEST_NODE_MODULES}/`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { UnauthorizedError } = require("@modelcontextprotocol/sdk/client/auth.js");

const REDIRECT = "http://127.0.0.1:1/callback";
const [url] = process.argv.slice(2);

const kept = {};
let asked;
const provider = {
  redirectUrl: REDIRECT,
  clientMetadata: {
    client_name: "login client",
    redirect_uris: [REDIRECT],
    grant_types: ["authorization_code"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    application_type: "native",
  },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  redirectToAuthorization: (place) => void (asked = place),
};

// The functions of a browser that these pages need: it keeps cookies, follows redirects and submits forms.
const cookies = new Map();
const visit = async (place, form) => {
  const response = await fetch(place, {
    method: form ? "POST" : "GET",
    redirect: "manual",
    headers: {
      cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; "),
      ...(form && { "content-type": "application/x-www-form-urlencoded" }),
    },
    body: form && new URLSearchParams(form).toString(),
  });
  for (const line of response.headers.getSetCookie()) {
    const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
    cookies.set(name, value);
  }
  return response;
};
const logIn = async (start) => {
  let place = start;
  let form;
  for (let step = 0; step < 20; step += 1) {
    const response = await visit(place, form);
    form = undefined;
    const next = response.headers.get("location");
    if (next) {
      place = new URL(next, place);
      if (place.href.startsWith(REDIRECT)) return place;
      continue;
    }
    const page = await response.text();
    const action = page.match(/<form[^>]*action="([^"]+)"/)?.[1];
    const prompt = page.match(/name="prompt" value="(\w+)"/)?.[1];
    if (!action) throw new Error(`no form on ${place}: ${response.status} ${page.slice(0, 500)}`);
    place = new URL(action, place);
    form = prompt === "login" ? { prompt, login: "ann", password: "any" } : { prompt };
  }
  throw new Error("the pages do not end");
};

const connect = async () => {
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  const client = new Client({ name: "login-client", version: "1.0.0" });
  try {
    await client.connect(transport);
    return { client };
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    return { transport };
  }
};
try {
  const { transport } = await connect();
  if (!transport) throw new Error("nobody asked for a login");
  const back = await logIn(asked);
  if (back.searchParams.get("error")) throw new Error(back.href);
  await transport.finishAuth(back.searchParams.get("code"));
  const { client } = await connect();
  const { tools } = await client.listTools();
  const { origin, searchParams } = new URL(asked);
  console.log(
    JSON.stringify({
      tools: tools.map(({ name }) => name),
      authorization: origin,
      scope: searchParams.get("scope"),
      resource: searchParams.get("resource"),
    }),
  );
  await client.close();
} catch (error) {
  console.error(String(error?.stack ?? error));
  process.exitCode = 1;
}
