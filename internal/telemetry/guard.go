package telemetry

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"kusto-agent/internal/secretfile"
	"kusto-agent/internal/units"
)

// Guard decides who is answered: who brings the token of Config.TokenFile, over TLS
// where the configuration names a certificate. The files are read again when they
// change, so that a new token or certificate needs no restart. The zero Guard lets
// everyone in; a Server accepts it on loopback alone. A Guard is safe for concurrent use.
type Guard struct {
	token string   // the file; empty: no token is needed
	pair  *keyPair // nil: no TLS
	log   *slog.Logger
	told  atomic.Bool // the token cannot be read, and that was logged
}

// Sizes of a token in bytes.
const (
	leastToken = 16
	mostToken  = 4 << 10
)

// NewGuard returns a guard after reading the token and the certificate that a configuration names;
// if telemetry.listen is empty it reads nothing. The error joins what is wrong with either; each
// names the configuration key and what to do, and quotes nothing of the files.
func NewGuard(c Config, log *slog.Logger) (*Guard, error) {
	g := &Guard{log: log}
	if c.Listen == "" {
		return g, nil
	}
	var errs []error
	if g.token = c.TokenFile; g.token != "" {
		_, err := readToken(g.token)
		errs = append(errs, err)
	}
	if c.TLS.isSet() {
		g.pair = &keyPair{files: c.TLS, log: log}
		if err := g.pair.read(); err != nil {
			errs = append(errs, fmt.Errorf("telemetry.tls: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return g, nil
}

// isOpen reports whether no token is needed.
func (g *Guard) isOpen() bool { return g == nil || g.token == "" }

// tls returns the TLS settings of the server, which take the certificate from its files, also after
// these have changed; nil if the server does not use TLS.
func (g *Guard) tls() *tls.Config {
	if g == nil || g.pair == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return g.pair.current(), nil
		},
	}
}

// allows reports whether a request has the token, or none is needed. It is false if the token file
// cannot be read.
func (g *Guard) allows(r *http.Request) bool {
	if g.isOpen() {
		return true
	}
	given, ok := bearer(r)
	if !ok {
		return false
	}
	token, err := readToken(g.token)
	g.logTokenError(err)
	if err != nil {
		return false
	}
	// Hashes have equal lengths, so that the time of comparing them shows nothing of the token.
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// logTokenError logs err, the error of reading the token file. It is called after each reading:
// while reading goes on failing it logs only the first error, and a nil err ends that.
func (g *Guard) logTokenError(err error) {
	if told := g.told.Swap(err != nil); err != nil && !told {
		g.log.Warn("bearer token file of the telemetry endpoint cannot be read; until it can, every request that needs the token is refused", "err", err)
	}
}

// bearer returns the token of a request: from the header that Prometheus sends, or the password of
// basic authentication, as browsers ask for, with any user name. ok is false if it has none.
func bearer(r *http.Request) (token string, ok bool) {
	if _, password, ok := r.BasicAuth(); ok {
		return password, true
	}
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), found && strings.EqualFold(scheme, "bearer")
}

// unauthorized answers a request that has no valid token.
func unauthorized(w http.ResponseWriter) {
	w.Header().Add("WWW-Authenticate", `Bearer realm="kusto-agent"`)
	w.Header().Add("WWW-Authenticate", `Basic realm="kusto-agent: any user, and the token as password"`)
	http.Error(w, "the token of telemetry.token_file is needed, as a bearer token or as the password of any user", http.StatusUnauthorized)
}

// readToken returns the token in a file, without its line end. It fails if everyone can read or
// write the file, if it is no regular file, or if the token is too short, too long or not printable
// ASCII. It does not block on a FIFO.
func readToken(path string) (token string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("telemetry.token_file: %w", err)
		}
	}()
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no file %s; make it by: (umask 027; openssl rand -hex 32 >FILE)", Printable(path))
	} else if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !st.Mode().IsRegular():
		return "", fmt.Errorf("%s is no file; want a plain file with the token in it", Printable(path))
	case secretfile.IsOpen(st.Mode()):
		return "", fmt.Errorf("%s can be read or written by everyone (mode %04o); run: chmod o= FILE", Printable(path), st.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, mostToken+1))
	if err != nil {
		return "", err
	}
	text = bytes.TrimRight(text, "\r\n")
	if len(text) < leastToken || len(text) > mostToken {
		return "", fmt.Errorf("the token in %s has %s; want %d to %d", Printable(path), units.Counted(len(text), "byte"), leastToken, mostToken)
	}
	if i := bytes.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return "", fmt.Errorf("the token in %s has a sign at byte %d that no header can have; want ASCII letters, digits and signs", Printable(path), i)
	}
	return string(text), nil
}

// keyPair is a certificate with its key, which is read again when its files change.
type keyPair struct {
	files TLSConfig
	log   *slog.Logger

	mu   sync.Mutex
	cert *tls.Certificate
	seen [2]version // of the files when they were last read
}

// version is what changes when a file is replaced or written. The zero version is that of a file that
// cannot be looked at.
type version struct {
	device, inode uint64
	size          int64
	modified      syscall.Timespec
}

// current returns the certificate to use, read again if its files have changed. If the new files
// cannot be used, that is logged once and the previous certificate stays in use.
func (p *keyPair) current() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.versions() != p.seen {
		if err := p.read(); err != nil {
			p.log.Warn("telemetry certificate cannot be loaded, the previous one stays in use", "err", err)
		}
	}
	return p.cert
}

// read reads certificate and key. After an error the previous pair stays in use, and the files are
// not read again until they change. The caller holds mu, or is the only one that uses p.
func (p *keyPair) read() error {
	p.seen = p.versions() // before the reading: what changes meanwhile is read again
	cert, err := tls.LoadX509KeyPair(p.files.CertificateFile, p.files.KeyFile)
	if err != nil {
		return fmt.Errorf("%w; want the certificate in certificate_file and its key in key_file, both in PEM and readable by the user of the agent", err)
	}
	p.cert = &cert
	return nil
}

// versions returns the versions of the files of the certificate and of the key, in this order.
func (p *keyPair) versions() (all [2]version) {
	for i, path := range []string{p.files.CertificateFile, p.files.KeyFile} {
		var st syscall.Stat_t
		if syscall.Stat(path, &st) == nil {
			all[i] = version{st.Dev, st.Ino, st.Size, st.Mtim}
		}
	}
	return all
}
