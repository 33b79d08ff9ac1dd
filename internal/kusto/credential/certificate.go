package credential

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"software.sslmate.com/src/go-pkcs12"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
	"kusto-agent/internal/kusto/wire"
)

// certificateLogin signs an assertion with the key of a certificate. Its files are
// read each time, so that a new certificate needs no restart.
type certificateLogin struct {
	tenant, client string
	file, password string // password may be empty
	seenFile       seenFile
	seenPassword   seenFile
	transports     *transports
}

func (l *certificateLogin) wantsAuthority() bool { return true }
func (l *certificateLogin) close()               {}

// changed reports whether the file of the certificate or of its password changed since it was read.
func (l *certificateLogin) changed() bool {
	return l.seenFile.changed(l.file) || l.password != "" && l.seenPassword.changed(l.password)
}

// ask reads the certificate, asks the authority for a token for the resource, and returns the token
// and its expiry. authority is the URL of the token service without the tenant.
func (l *certificateLogin) ask(ctx context.Context, authority, resource string) (string, time.Time, error) {
	chain, key, err := l.read()
	if err != nil {
		return "", time.Time{}, err
	}
	e, err := toAuthority(authority, l.transports)
	if err != nil {
		return "", time.Time{}, err
	}
	// A new credential each time: a credential caches its tokens, and one that the cluster
	// refused must not come out of that cache again.
	cred, err := azidentity.NewClientCertificateCredential(l.tenant, l.client, chain, key, &azidentity.ClientCertificateCredentialOptions{
		ClientOptions: e.options(authority), DisableInstanceDiscovery: true, SendCertificateChain: true,
	})
	if err != nil {
		return "", time.Time{}, badCertificate(l.file, err)
	}
	t, err := cred.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{resource + "/.default"}})
	return e.result(t, err)
}

// read returns the certificates and the private key in the file. It fails if the certificate is not
// valid now. Before it reads the files it notes their state, by which changed finds later writes.
func (l *certificateLogin) read() ([]*x509.Certificate, crypto.PrivateKey, error) {
	l.seenFile.look(l.file)
	data, err := readUpTo(l.file, maxCertificates)
	if err != nil {
		return nil, nil, unreadable(l.file, "auth.certificate_file", err)
	}
	password := ""
	if l.password != "" {
		l.seenPassword.look(l.password)
		if password, err = readSecret(l.password, "auth.certificate_password_file"); err != nil {
			return nil, nil, err
		}
	}
	chain, key, err := parseCertificate(data, password)
	if err != nil {
		return nil, nil, badCertificate(l.file, err)
	}
	if err := validNow(leafOf(chain, key), l.file, time.Now()); err != nil {
		return nil, nil, err
	}
	return chain, key, nil
}

// maxCertificates bounds a file of certificates, in bytes.
const maxCertificates = 1 << 20

var (
	errSealedKey = errors.New("the key in it is encrypted, which is read from PKCS#12 alone")
	errKeyless   = errors.New("it holds no key of any certificate in it")
)

// parseCertificate parses PEM that holds certificates and an unencrypted key, or else PKCS#12 with
// the given password. It returns the certificates and the key. From PKCS#12 the certificate that
// belongs to the key comes first; from PEM they keep their order.
func parseCertificate(data []byte, password string) ([]*x509.Certificate, crypto.PrivateKey, error) {
	if block, _ := pem.Decode(data); block == nil {
		key, leaf, others, err := pkcs12.DecodeChain(data, password)
		if err != nil && strings.Contains(err.Error(), "asn1: ") {
			return nil, nil, errors.New("it is neither PEM nor PKCS#12, or it is damaged")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read it as PKCS#12, since it is not PEM: %w", err)
		}
		return append([]*x509.Certificate{leaf}, others...), key, nil
	}
	if bytes.Contains(data, []byte("ENCRYPTED")) {
		return nil, nil, errSealedKey
	}
	chain, key, err := azidentity.ParseCertificates(data, nil)
	if err == nil && leafOf(chain, key) == nil {
		err = errKeyless
	}
	return chain, key, err
}

// leafOf returns the certificate that belongs to the private key; nil if none of the chain does.
func leafOf(chain []*x509.Certificate, key crypto.PrivateKey) *x509.Certificate {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil
	}
	for _, c := range chain {
		if public, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); ok && public.Equal(signer.Public()) {
			return c
		}
	}
	return nil
}

// validNow returns an error if the certificate is missing, has expired, or is not valid yet by more
// than the tolerated clock difference.
func validNow(c *x509.Certificate, path string, now time.Time) error {
	words := ""
	switch {
	case c == nil:
		return badCertificate(path, errKeyless)
	case now.After(c.NotAfter):
		words = "ended at " + c.NotAfter.UTC().Format(time.RFC3339)
	case now.Add(wire.MaxSkew).Before(c.NotBefore):
		words = "begins at " + c.NotBefore.UTC().Format(time.RFC3339)
	default:
		return nil
	}
	return &kusto.Error{
		Message: fmt.Sprintf("read auth.certificate_file: the certificate in %s %s", reply.QuoteName(path), words), Timely: true,
		Hint: "put a certificate into the file that is valid now; it is read as soon as it changes. Register it: az ad app credential reset --id <client id> --append --cert @certificate.pem",
	}
}

// badCertificate returns the error for a certificate file that was read and cannot be used, with a
// hint that depends on err.
func badCertificate(path string, err error) error {
	hint := "write the certificate and its RSA key into the file, as PEM or PKCS#12: cat certificate.pem key.pem"
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword):
		hint = "write the password of the file into that of auth.certificate_password_file"
	case errors.Is(err, errSealedKey):
		hint = "write the key without a password: openssl pkey -in key.pem -out plain.pem; or make PKCS#12 of both: openssl pkcs12 -export -in certificate.pem -inkey key.pem -out agent.pfx"
	}
	return &kusto.Error{
		Message: reply.Printable("read auth.certificate_file: "+reply.QuoteName(path)+": "+err.Error(), reply.MaxMessage), Hint: hint,
	}
}

// unreadable returns the error for a file with a secret that cannot be read, with a hint. key is
// the configuration key that names the file, err the error of reading it.
func unreadable(path, key string, err error) error {
	var named *os.PathError
	if !errors.As(err, &named) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return &kusto.Error{Message: reply.Printable("read "+key+": "+err.Error(), reply.MaxMessage), Cause: err, Hint: readHint(path)}
}
