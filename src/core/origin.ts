// Origins of browsers' pages that a tenant lets in for itself: who may call for whom is known in full only with the token.

/** What the tenants say. */
export type TenantOrigins = {
  /** Whether no tenant lets in any. */
  readonly isEmpty: boolean;
  /** Whether any tenant lets in pages of this origin: all that can be asked of a preflight or an upgrade. */
  has(origin: string): boolean;
  /** Whether this tenant does. */
  isOf(tenantId: string, origin: string): boolean;
};
