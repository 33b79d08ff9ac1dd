package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"kusto-agent/internal/nest"
)

var scratch string // of the whole test binary

func TestMain(m *testing.M) {
	if nest.Inside() || len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		nest.Main(m)
	}
	var err error
	if scratch, err = os.MkdirTemp("", "kusto-agent-packaging-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// made is one build of this checkout for one machine, which all tests look at.
type made struct {
	release
	arch string
	tree []file
	bom  []byte
}

// first has a build for each machine, made when it is asked for.
var first = func() map[string]func() (*made, error) {
	all := make(map[string]func() (*made, error))
	for _, arch := range arches {
		all[arch] = sync.OnceValues(func() (*made, error) { return makeFrom("../..", filepath.Join(scratch, "first"), arch) })
	}
	return all
}()

func theBuild(t *testing.T) *made { return buildFor(t, runtime.GOARCH) }

func buildFor(t *testing.T, arch string) *made {
	t.Helper()
	if testing.Short() {
		t.Skip("not with -short: compiles the agent")
	}
	m, err := first[arch]()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// makeFrom builds from a checkout; work is the folder for what is made on the way.
func makeFrom(root, work, arch string) (*made, error) {
	m := &made{arch: arch, release: release{work: work, options: options{
		root: root, arches: []string{arch}, version: "1.0.0", commit: "f80da32c108c415ca19e643f461a677a00000000", date: "2026-01-02T05:04:05+02:00", maintainer: "Tests <tests@localhost>",
	}}}
	if err := errors.Join(os.MkdirAll(work, 0o755), m.identify()); err != nil {
		return nil, err
	}
	host, err := m.hostAgent()
	if err != nil {
		return nil, err
	}
	m.tree, m.bom, err = m.content(arch, host)
	return m, err
}

// files are those that a build writes for one machine.
func (m *made) files(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{"cdx.json": m.bom}
	var err error
	if all["tar.gz"], err = m.archive("kusto-agent", m.tree); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"deb", "rpm"} {
		_, text, err := m.pack(kind, m.arch, m.tree)
		if err != nil {
			t.Fatal(err)
		}
		all[kind] = text
	}
	all["image.tar"] = m.imageTar(t)
	return all
}

// imageTar is the archive with the image for the one machine.
func (m *made) imageTar(t *testing.T) (text []byte) {
	t.Helper()
	image, err := m.image(m.arch, m.tree)
	if err == nil {
		text, err = m.imageArchive(map[string]v1.Image{m.arch: image})
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestReproducible builds the checkout and a copy of it in another folder, for
// somebody with other habits.
func TestReproducible(t *testing.T) {
	here := theBuild(t).files(t)
	copied := filepath.Join(t.TempDir(), "elsewhere", "checkout")
	copyCheckout(t, copied)
	t.Setenv("GOFLAGS", "-tags=other")
	t.Setenv("TZ", "Pacific/Auckland")
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	t.Setenv("GOAMD64", "v3")
	there, err := makeFrom(copied, t.TempDir(), runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range there.files(t) {
		if !bytes.Equal(text, here[name]) {
			t.Errorf("%s differs: %d and %d bytes", name, len(here[name]), len(text))
		}
	}
}

// copyCheckout copies what git knows of, and what it would take in.
func copyCheckout(t *testing.T, to string) {
	t.Helper()
	out, err := exec.Command("git", "-C", "../..", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, and git has not been told
		}
		path := filepath.Join(to, name)
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700)); err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTree: everything a package has to have is in it, where Debian looks for it.
func TestTree(t *testing.T) {
	m := theBuild(t)
	has := make(map[string]file)
	for _, f := range m.tree {
		if _, twice := has[f.path]; twice {
			t.Errorf("%s is in it twice", f.path)
		}
		has[f.path] = f
	}
	for _, want := range []struct {
		path string
		mode os.FileMode
		says string
	}{
		{"/usr/bin/kusto-agent", 0o755, "\x7fELF"},
		{"/usr/lib/systemd/system/kusto-agent.service", 0o644, "ExecStart=/usr/bin/kusto-agent"},
		{"/usr/lib/systemd/system/kusto-agent@.service", 0o644, "instances/%i.yaml"},
		{"/usr/lib/sysusers.d/kusto-agent.conf", 0o644, "u kusto-agent"},
		{"/etc/kusto-agent/agent.yaml", 0o640, "cluster"},
		{"/usr/share/man/man1/kusto-agent.1.gz", 0o644, "\x1f\x8b"},
		{"/usr/share/man/man1/kusto-agent-run.1.gz", 0o644, "\x1f\x8b"},
		{"/usr/share/bash-completion/completions/kusto-agent", 0o644, "complete"},
		{"/usr/share/zsh/vendor-completions/_kusto-agent", 0o644, "#compdef"},
		{"/usr/share/fish/vendor_completions.d/kusto-agent.fish", 0o644, "complete"},
		{"/usr/share/kusto-agent/agent.schema.json", 0o644, "draft/2020-12"},
		{"/usr/share/kusto-agent/agent.yaml.example", 0o644, "cluster:"},
		{"/usr/share/doc/kusto-agent/copyright", 0o644, "licence"},
		{"/usr/share/doc/kusto-agent/changelog.gz", 0o644, "\x1f\x8b"},
		{"/usr/share/doc/kusto-agent/kusto-agent.cdx.json", 0o644, "CycloneDX"},
		{"/usr/share/doc/kusto-agent/third-party/std/LICENSE", 0o644, "Go Authors"},
		{"/usr/share/doc/kusto-agent/third-party/github.com/spf13/cobra/LICENSE.txt", 0o644, "Apache License"},
	} {
		f, ok := has[want.path]
		if !ok || f.mode != want.mode || !bytes.Contains(f.text, []byte(want.says)) {
			t.Errorf("%s: there %v, mode %o, want %o and %q in it", want.path, ok, f.mode, want.mode, want.says)
		}
		if f.config != strings.HasPrefix(want.path, "/etc/") {
			t.Errorf("%s is a conffile: %v", want.path, f.config)
		}
	}
	for _, own := range []string{m.work, os.Getenv("HOME") + "/"} {
		if bytes.Contains(has["/usr/bin/kusto-agent"].text, []byte(own)) {
			t.Errorf("the binary names %s", own)
		}
	}
}

// TestPagesAreWhole: what a page of a package links to is in the package too, where the page says.
func TestPagesAreWhole(t *testing.T) {
	m := theBuild(t)
	link := regexp.MustCompile(`\]\(([^):# ]+)(#[^)]*)?\)`)
	pages := 0
	for _, page := range m.tree {
		if !strings.HasPrefix(page.path, docs+"/") || path.Ext(page.path) != ".md" {
			continue
		}
		pages++
		for _, l := range link.FindAllStringSubmatch(string(page.text), -1) {
			to := path.Join(path.Dir(page.path), l[1])
			if !slices.ContainsFunc(m.tree, func(f file) bool { return f.path == to || strings.HasPrefix(f.path, to+"/") }) {
				t.Errorf("%s: %s is not in the package", page.path, l[1])
			}
		}
	}
	if pages < 30 {
		t.Errorf("the package has %d pages", pages)
	}
}

// TestVersion: the binary tells what it was built from.
func TestVersion(t *testing.T) {
	m := theBuild(t)
	out, err := exec.Command(filepath.Join(m.work, "kusto-agent-"+runtime.GOARCH), "version").Output()
	want := "kusto-agent 1.0.0\ncommit f80da32c108c415ca19e643f461a677a00000000\ndate 2026-01-02T03:04:05Z\n"
	if err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

// TestComponents: the list can be read, and what is in the program has a licence.
func TestComponents(t *testing.T) {
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(theBuild(t).bom), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range *bom.Components {
		names = append(names, c.Name)
		if c.Version == "" || c.Licenses == nil || len(*c.Licenses) == 0 {
			t.Errorf("%s has version %q and licences %v", c.Name, c.Version, c.Licenses)
		}
	}
	for _, want := range []string{"std", "github.com/spf13/cobra", "golang.org/x/sys"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %q", want, names)
		}
	}
	if got := *bom.Dependencies; len(got) != 1 || len(*got[0].Dependencies) != len(names) {
		t.Errorf("dependencies %+v of %d components", got, len(names))
	}
}

// TestArchive: what is unpacked over an installation changes no configuration, all of it
// is below one folder, and it has one time.
func TestArchive(t *testing.T) {
	m := theBuild(t)
	text, err := m.archive("kusto-agent-1", m.tree)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	n, last := 0, ""
	for r := tar.NewReader(zip); ; n++ {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(head.Name, "kusto-agent-1/usr/") || !head.ModTime.Equal(m.when) || head.Name <= last || head.Uname != "root" {
			t.Errorf("%s of %v, by %s, after %s", head.Name, head.ModTime, head.Uname, last)
		}
		last = head.Name
	}
	if n < 50 {
		t.Errorf("%d files", n)
	}
}

// TestArchivesAreWhole: an archive of a folder ends as one has to, with two blocks of zeros, so that
// tools that look for its end do not take it for broken off.
func TestArchivesAreWhole(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := new(release).folderArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	const block = 512
	if len(text)%block != 0 || !bytes.HasSuffix(text, make([]byte, 2*block)) {
		t.Errorf("it has %d bytes, and not the blocks that end it", len(text))
	}
}

// TestSums: whoever has the files can check them with the usual tool.
func TestSums(t *testing.T) {
	r := &release{options: options{output: t.TempDir()}, made: make(map[string][sha256.Size]byte)}
	for _, name := range []string{"a", "b"} {
		if err := r.write(name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	names, lines := r.sums()
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("it names %v", names)
	}
	check := func() error {
		cmd := exec.Command("sha256sum", "--check", "--strict", "--quiet")
		cmd.Dir, cmd.Stdin = r.output, bytes.NewReader(lines)
		return cmd.Run()
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	if err := r.write("b", []byte("c")); err != nil {
		t.Fatal(err)
	}
	if check() == nil {
		t.Error("a file that was changed passes")
	}
}

func TestKindOf(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := kindOf([]byte(text)); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	f("   Apache License\n   Version 2.0, January 2004", "Apache-2.0")
	f("Licensed under the Apache License,\nVersion 2.0 (the", "Apache-2.0")
	f("You may do as you like.", "")
}
