// Errors of the OAuth endpoints, in the form that OAuth clients read (RFC 6749, 7591, 8707).

export type OauthErrorCode =
  | "invalid_request"
  | "invalid_client"
  | "invalid_grant"
  | "invalid_scope"
  | "invalid_target"
  | "invalid_redirect_uri"
  | "invalid_client_metadata"
  | "unsupported_grant_type"
  | "unsupported_response_type"
  | "access_denied";

/** Its message may be shown to the client. */
export class OauthError extends Error {
  override readonly name = "OauthError";
  readonly code: OauthErrorCode;

  constructor(code: OauthErrorCode, message: string) {
    super(message);
    this.code = code;
  }

  toResponse(): Response {
    const status = this.code === "invalid_client" ? 401 : 400;
    return Response.json({ error: this.code, error_description: this.message }, { status });
  }
}

/** Runs a handler; its OAuth errors become responses, all others are problems like those of every route. */
export async function toOauthResponse(run: () => Promise<Response> | Response): Promise<Response> {
  try {
    return await run();
  } catch (thrown) {
    if (thrown instanceof OauthError) return thrown.toResponse();
    throw thrown;
  }
}
