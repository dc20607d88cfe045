// Who issues tokens for `/mcp`: the discovery documents (RFC 9728, RFC 8414), and the addresses that they name.
import { notFound } from "@/core/fault.ts";
import { publicAddressOf } from "@/core/http/public_address.ts";
import type { Route } from "@/core/http/route.ts";
import { jsonResponseDocument } from "./route_document.ts";

type IssuerOptions = {
  publicUrl: string | undefined;
  /** Issuer of the identity provider that authenticates the people, when there is one: it issues the tokens then. */
  provider: string | undefined;
  /** Scopes that an application can ask for. */
  scopes: () => readonly string[];
};

/** The addresses of the gateway as an issuer of tokens. */
export class Issuer {
  readonly #publicUrl: string | undefined;
  readonly provider: string | undefined;
  readonly scopes: () => readonly string[];

  constructor({ publicUrl, provider, scopes }: IssuerOptions) {
    this.#publicUrl = publicUrl;
    this.provider = provider;
    this.scopes = scopes;
  }

  /** What an application gets that asks for nothing certain: reading and writing, but no management. */
  defaultScopes(): readonly string[] {
    return this.scopes().filter((scope) => !scope.endsWith(".manage"));
  }

  /** Address of the gateway. */
  baseOf(request: Request): string | undefined {
    return publicAddressOf(request, this.#publicUrl);
  }

  /** The same where it must be known; throws `not_found` where the gateway issues no tokens. */
  requireBase(request: Request): string {
    const base = this.provider === undefined ? this.baseOf(request) : undefined;
    if (base === undefined) throw notFound("authorization server here: SVC_PUBLIC_URL or an identity provider decides");
    return base;
  }

  /** What tokens for `/mcp` are issued for. */
  resourceOf(request: Request): string | undefined {
    const base = this.baseOf(request);
    return base === undefined ? undefined : `${base}/mcp`;
  }

  /** Parameters of `WWW-Authenticate` in a 401 at `/mcp`: where a client finds out how to get a token. */
  challengeOf(request: Request): string | undefined {
    const base = this.baseOf(request);
    if (base === undefined) return undefined;
    const metadata = `${base}/.well-known/oauth-protected-resource/mcp`;
    return `resource_metadata="${metadata}", scope="${this.defaultScopes().join(" ")}"`;
  }
}

/** The discovery documents. */
export function metadataRoutes(issuer: Issuer): Route[] {
  const protectedResource = (name: string, path: string): Route => ({
    name,
    summary: "Get the authorization server that issues tokens for `/mcp` (RFC 9728)",
    tag: "oauth",
    method: "GET",
    path,
    auth: "public",
    faults: ["not_found"],
    document: { responses: { "200": jsonResponseDocument("Metadata of the protected resource") } },
    handle(request) {
      const base = issuer.baseOf(request);
      if (base === undefined) throw notFound("public address: set SVC_PUBLIC_URL");
      return Response.json({
        resource: `${base}/mcp`,
        resource_name: "Collaboration Gateway",
        authorization_servers: [issuer.provider ?? base],
        bearer_methods_supported: ["header"],
        // Clients ask for all that is listed here; what manages is asked for by name.
        scopes_supported: issuer.defaultScopes(),
      });
    },
  });
  return [
    protectedResource("oauth.resource", "/.well-known/oauth-protected-resource"),
    protectedResource("oauth.mcp_resource", "/.well-known/oauth-protected-resource/mcp"),
    {
      name: "oauth.server",
      summary: "Get the endpoints of the gateway's own authorization server (RFC 8414)",
      tag: "oauth",
      method: "GET",
      path: "/.well-known/oauth-authorization-server",
      auth: "public",
      faults: ["not_found"],
      document: { responses: { "200": jsonResponseDocument("Metadata of the authorization server") } },
      handle(request) {
        const base = issuer.requireBase(request);
        return Response.json({
          issuer: base,
          authorization_endpoint: `${base}/oauth/authorize`,
          token_endpoint: `${base}/oauth/token`,
          registration_endpoint: `${base}/oauth/register`,
          revocation_endpoint: `${base}/oauth/revoke`,
          response_types_supported: ["code"],
          response_modes_supported: ["query"],
          grant_types_supported: ["authorization_code", "refresh_token"],
          code_challenge_methods_supported: ["S256"],
          token_endpoint_auth_methods_supported: ["none"],
          revocation_endpoint_auth_methods_supported: ["none"],
          scopes_supported: issuer.scopes(),
          authorization_response_iss_parameter_supported: true,
          client_id_metadata_document_supported: true,
        });
      },
    },
  ];
}
