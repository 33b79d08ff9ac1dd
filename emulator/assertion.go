package emulator

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Federation is an issuer whose tokens an application accepts in place of a secret.
type Federation struct{ Issuer, Subject string }

const (
	assertionType     = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	federatedAudience = "api://AzureADTokenExchange"
)

// assertion is a decoded JSON web token with which a client proves its identity in place of a client
// secret.
type assertion struct {
	head struct {
		Algorithm string   `json:"alg"`
		Chain     []string `json:"x5c"`
	}
	claims struct {
		Issuer    string   `json:"iss"`
		Subject   string   `json:"sub"`
		Audience  audience `json:"aud"`
		Expires   float64  `json:"exp"`
		NotBefore float64  `json:"nbf"`
	}
	signed    string
	signature []byte
}

// audience is one text or a list of them.
type audience []string

// UnmarshalJSON accepts the two forms that the aud claim may have: one string, or a list of them.
func (a *audience) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(a))
}

// readAssertion decodes a compact JSON web token (header.claims.signature). It verifies nothing; ok is
// false when the text is not such a token.
func readAssertion(text string) (a *assertion, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, false
	}
	a = &assertion{signed: parts[0] + "." + parts[1]}
	part := func(i int, into any) bool {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		return err == nil && json.Unmarshal(raw, into) == nil
	}
	var err error
	a.signature, err = base64.RawURLEncoding.DecodeString(parts[2])
	return a, err == nil && part(0, &a.head) && part(1, &a.claims)
}

// checkAssertion checks the client_assertion of a token request: kind is its client_assertion_type,
// client the client_id, endpoint the URL that was called. An assertion that the client issued itself
// must be signed with its certificate; any other is taken for the token of a trusted issuer, whose
// signature is not checked. It returns nil when the assertion is accepted.
func (t *tokens) checkAssertion(text, kind, client, endpoint string) *tokenError {
	a, ok := readAssertion(text)
	now := float64(time.Now().Unix())
	const slack = 5 * 60
	switch {
	case kind != assertionType || !ok:
		return &tokenError{401, "invalid_client", 50027, "JWT token is invalid or malformed."}
	case a.claims.Expires < now-slack || a.claims.NotBefore > now+slack:
		return &tokenError{401, "invalid_client", 700024, "Client assertion is not within its valid time range."}
	case a.claims.Issuer != client || a.claims.Subject != client:
		return t.checkFederated(a)
	case !slices.Contains(a.claims.Audience, endpoint):
		return &tokenError{401, "invalid_client", 50013, "Assertion failed signature validation. [Reason - The audience is not this endpoint.]"}
	case !t.isSigned(a):
		return &tokenError{401, "invalid_client", 700027, "The certificate with identifier used to sign the client assertion is not registered on application."}
	}
	return nil
}

// checkFederated checks an assertion that another issuer made: audience, issuer and subject must be
// those of a configured federation. Without any federation, every issuer and subject is accepted. It
// returns nil when the assertion is accepted.
func (t *tokens) checkFederated(a *assertion) *tokenError {
	none := "No matching federated identity record found for presented assertion "
	others := func(f Federation) bool { return f.Issuer != a.claims.Issuer }
	switch issuers := slices.DeleteFunc(slices.Clone(t.opt.Federations), others); {
	case !slices.Contains(a.claims.Audience, federatedAudience):
		return &tokenError{401, "invalid_client", 700212, none + "audience '" + strings.Join(a.claims.Audience, " ") + "'."}
	case len(t.opt.Federations) == 0:
	case len(issuers) == 0:
		return &tokenError{401, "invalid_client", 700211, none + "issuer '" + a.claims.Issuer + "'."}
	case !slices.ContainsFunc(issuers, func(f Federation) bool { return f.Subject == a.claims.Subject }):
		return &tokenError{401, "invalid_client", 700213, none + "subject '" + a.claims.Subject + "'."}
	}
	return nil
}

// isSigned reports whether the assertion is signed with the key of the first certificate in its x5c
// header, and that certificate is a registered one. Where none is registered, any certificate will do.
func (t *tokens) isSigned(a *assertion) bool {
	if len(a.head.Chain) == 0 {
		return false
	}
	der, err := base64.StdEncoding.DecodeString(a.head.Chain[0])
	if err != nil {
		return false
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil || len(t.opt.ClientCertificates) > 0 && !slices.ContainsFunc(t.opt.ClientCertificates, cert.Equal) {
		return false
	}
	key, ok := cert.PublicKey.(*rsa.PublicKey)
	if !ok {
		return false
	}
	sum := sha256.Sum256([]byte(a.signed))
	switch a.head.Algorithm {
	case "PS256":
		return rsa.VerifyPSS(key, crypto.SHA256, sum[:], a.signature, nil) == nil
	case "RS256":
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], a.signature) == nil
	}
	return false
}
