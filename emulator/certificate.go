package emulator

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// certificates makes a certificate authority and a certificate for localhost, 127.0.0.1 and ::1 that
// it signs, both valid for three months. authority is in PEM, for clients to trust. The key of the
// authority is discarded.
func certificates(now time.Time) (authority []byte, server tls.Certificate, err error) {
	from, to := now.Add(-time.Hour), now.AddDate(0, 3, 0)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kusto-agent emulator CA"},
		NotBefore: from, NotAfter: to, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, MaxPathLenZero: true,
	}
	rootDER, rootKey, err := signed(root, root, nil)
	if err != nil {
		return nil, server, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: from, NotAfter: to, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, key, err := signed(leaf, root, rootKey)
	if err != nil {
		return nil, server, err
	}
	authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
	return authority, tls.Certificate{Certificate: [][]byte{der, rootDER}, PrivateKey: key}, nil
}

// signed makes a key and the certificate for it, which is signed by the key of its parent; by itself
// where that is nil.
func signed(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (der []byte, key *ecdsa.PrivateKey, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err == nil {
		der, err = x509.CreateCertificate(rand.Reader, template, parent, key.Public(), cmp.Or(by, key))
	}
	return der, key, err
}
