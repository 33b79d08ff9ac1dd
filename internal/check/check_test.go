package check

import (
	"context"
	"crypto/x509"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto/credential"
	"kusto-agent/internal/kusto/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPasted: the command of a hint comes on a line of its own.
func TestPasted(t *testing.T) {
	f := func(hint, want string) {
		t.Helper()
		if got := pasted(hint); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f("do it: .alter table ['T'] x", "do it\n.alter table ['T'] x")
	f("make it: .create table T (c: string); if it exists and is new: .clear x", "make it\n.create table T (c: string)\nif it exists and is new\n.clear x")
	f("look at send.proxy: or not", "look at send.proxy: or not")
	f("it ends in: .", "it ends in: .")
}

// TestQuoted: a path in a command is one word of a shell, whatever is in it.
func TestQuoted(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := config.Quoted(in); got != want {
			t.Errorf("%q becomes %s, want %s", in, got, want)
		}
	}
	f("/srv/app/a-1.log", "/srv/app/a-1.log")
	f("/srv/a b", "'/srv/a b'")
	f("$(rm x)'", `'$(rm x)'\'''`)
	f("", "''")
}

// TestCredentialFix: a file of any kind that only systemd has is found in its folder.
func TestCredentialFix(t *testing.T) {
	store := t.TempDir()
	if err := os.WriteFile(filepath.Join(store, "secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(auth credential.Config, want string) {
		t.Helper()
		c := &cluster{Cluster: config.Cluster{Auth: auth}}
		if got := c.credentialFix(store, "as told", "agent.yaml"); !strings.Contains(got, want) {
			t.Errorf("%+v: %q lacks %q", auth, got, want)
		}
	}
	f(credential.Config{}, "as told")
	f(credential.Config{TokenFile: "/nowhere/other"}, "as told")
	f(credential.Config{TokenFile: filepath.Join(store, "secret")}, "as told")
	const found = "sudo CREDENTIALS_DIRECTORY="
	f(credential.Config{ClientSecretFile: "/nowhere/secret"}, found)
	f(credential.Config{TokenFile: "/nowhere/secret"}, found)
	f(credential.Config{CertificateFile: "/nowhere/secret"}, found)
	f(credential.Config{CertificatePasswordFile: "/nowhere/secret"}, found)
	f(credential.Config{FederatedTokenFile: "/nowhere/secret"}, found)
}

// TestAs: as the user of the service the kernel refuses what the mode of a file
// does, and only there.
func TestAs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can look as another user")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	path := filepath.Join(t.TempDir(), "shut")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := FindService(t.Context(), "agent.yaml", nobody.Username)
	if err != nil || s.name() != "nobody" {
		t.Fatalf("%+v, %v", s, err)
	}
	look := func() (err error) {
		return unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK, unix.AT_EACCESS)
	}
	var inside error
	if err := s.as(func() { inside = look() }); err != nil || inside == nil {
		t.Errorf("as nobody: %v, %v", err, inside)
	}
	if err := look(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if _, err := FindService(t.Context(), "agent.yaml", "no such user"); err == nil || !strings.Contains(err.Error(), `--user "no such user": this machine has no such user; name the one`) {
		t.Errorf("an unknown user: %v", err)
	}
}

// TestBeforeTheFirstStart: the folders that systemd makes for the service are no mistake before they are
// there, nor is what the agent makes in them; a folder beside them that the service may not make is one.
func TestBeforeTheFirstStart(t *testing.T) {
	s := Service{}
	if os.Getuid() == 0 { // who may make folders in /var/lib
		var err error
		if s, err = FindService(t.Context(), "agent.yaml", "nobody"); err != nil {
			t.Skip(err)
		}
	}
	s.Unit = "kusto-agent@never started"
	for dir, want := range map[string]Severity{s.StateDir(): OK, s.StateDir() + "/spool": OK, s.StateDir() + "er/spool": Error} {
		r := &run{Options: Options{Service: s}}
		r.writable("spool.dir", dir)
		if len(r.found) != 1 || r.found[0].Severity != want {
			t.Errorf("%s: %+v, want %s", dir, r.found, want)
		}
	}
}

// TestStopped: a run that is stopped says so.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte("cluster: http://localhost:1\ndatabase: D\nauth: {method: none}\ninputs: [{paths: [/nowhere/*.csv], table: T}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := Run(ctx, Options{Path: path, Env: os.LookupEnv})
	if err == nil || len(found) == 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestSecretOfAClusterOutOfReach: a secret that cannot be one is found also where the cluster does not
// answer and no token is asked for by it.
func TestSecretOfAClusterOutOfReach(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.yaml")
	for name, text := range map[string]string{"empty": "", "agent.yaml": "cluster: http://127.0.0.1:1\ndatabase: D\nauth: {tenant: t, client_id: c, client_secret_file: ./empty}\n" +
		"inputs: [{paths: [/nowhere/*.csv], table: T}]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Run(t.Context(), Options{Path: path, Env: func(string) (string, bool) { return "", false }})
	if err != nil || ExitCode(found) != exit.Unreachable {
		t.Errorf("%v, exit code %d", err, ExitCode(found))
	}
	if n := len(slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.ID != "token" || !strings.Contains(f.What, "holds 0 bytes") })); n != 1 {
		t.Errorf("%d findings of the secret in %+v", n, found)
	}
}

// TestWayFindings: a certificate that ends soon, and a clock that is off.
func TestWayFindings(t *testing.T) {
	f := func(id string, w wire.Way, want Severity, words string) {
		t.Helper()
		r := new(run)
		r.certificate(&cluster{}, w)
		r.clock(&cluster{}, w)
		if len(r.found) != 1 || r.found[0].ID != id || r.found[0].Severity != want || !strings.Contains(r.found[0].What, words) || (want != OK) != (r.found[0].Fix != "") {
			t.Errorf("found %+v, want %s %s", r.found, want, words)
		}
	}
	until := func(d time.Duration) wire.Way {
		return wire.Way{Leaf: &x509.Certificate{NotAfter: time.Now().Add(d)}, TLS: "TLS 1.3"}
	}
	f("network.tls", until(30*24*time.Hour), OK, "TLS 1.3, certificate good until")
	f("network.tls", until(24*time.Hour), Warning, "certificate good until")
	clock := func(ahead time.Duration) wire.Way { return wire.Way{Dated: true, Ahead: ahead} }
	f("clock", clock(-time.Second), OK, "agrees")
	f("clock", clock(time.Minute), Warning, "1m0s behind")
	f("clock", clock(-time.Hour), Error, "1h0m0s ahead: tokens are refused")
}

// TestLimits: what is asked for against what is given.
func TestLimits(t *testing.T) {
	cfg := config.DefaultConfig()
	cfg.Limits.OpenFiles = 1000 // any machine gives that
	f := func(s Service, folders int, id string, want Severity, words string) {
		t.Helper()
		r := &run{Options: Options{Service: s}, cfg: &cfg, folders: folders}
		r.limits(t.Context())
		for _, x := range r.found {
			if x.ID == id && x.Severity == want && strings.Contains(x.What+x.Fix, words) {
				return
			}
		}
		t.Errorf("found %+v, want %s %s %s", r.found, id, want, words)
	}
	f(Service{Unit: "kusto-agent", Files: 65536}, 1, "limits.open_files", OK, "LimitNOFILE of the unit allows 65536")
	f(Service{Unit: "kusto-agent@a", Files: 1024}, 1, "limits.open_files", Error, ">/etc/systemd/system/kusto-agent@a.service.d/files.conf\nsystemctl daemon-reload")
	f(Service{Files: 0}, 1, "limits.open_files", OK, "the limit of this shell")
	if kernelNumber("fs/inotify/max_user_watches") > 0 {
		f(Service{}, 1<<40, "limits.inotify", Warning, "sysctl -w fs.inotify.max_user_watches=")
	}
}
