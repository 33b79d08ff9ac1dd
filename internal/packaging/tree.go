package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// file is one that a package installs, or a folder with no text.
type file struct {
	path   string // from the root of the machine
	mode   os.FileMode
	text   []byte
	folder bool
	config bool   // whoever runs the machine changes it, and a package does not
	only   string // deb or rpm: in these packages alone
	user   int    // the owner in an image; 0: root
}

//go:embed agent.yaml scripts
var own embed.FS

const (
	docs  = "/usr/share/doc/kusto-agent"
	share = "/usr/share/kusto-agent"
)

// copied are the files of the checkout that a package has as they are. A pattern that
// matches nothing is an error.
var copied = []struct {
	from, to string
}{
	{from: "systemd/*.service", to: "/usr/lib/systemd/system"},
	{from: "systemd/sysusers.d/*.conf", to: "/usr/lib/sysusers.d"},
	{from: "agent.yaml.example", to: share},
	{from: "README.md", to: docs},
	{from: "SECURITY.md", to: docs},
	{from: "BENCHMARKS.md", to: docs},
	{from: "CHANGELOG.md", to: docs},
	{from: "CONTRIBUTING.md", to: docs},
	{from: "agent.yaml.example", to: docs}, // a page links to it, as to all that follows
	{from: "docs/*.md", to: docs + "/docs"},
	{from: "docs/*.svg", to: docs + "/docs"},
	{from: "docs/*.png", to: docs + "/docs"},
	{from: "docs/alerts.yml", to: docs + "/docs"},
	{from: "docs/dashboard.json", to: docs + "/docs"},
	{from: "docs/formats/*.md", to: docs + "/docs/formats"},
	{from: "docs/recipes/*", to: docs + "/docs/recipes"},
	{from: "docs/kubernetes/*", to: docs + "/docs/kubernetes"},
	{from: "docs/recipes/*.yaml", to: docs + "/examples"},
	{from: "docs/recipes/*.log", to: docs + "/examples"},
	{from: "docs/alerts.yml", to: share},
	{from: "docs/dashboard.json", to: share},
}

// tree is everything that is installed, sorted by path.
func (r *release) tree(binary, host string, bom []byte, third []*party) (tree []file, err error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	tree = []file{
		{path: "/usr/bin/kusto-agent", mode: 0o755, text: program},
		{path: "/etc/kusto-agent", mode: 0o755, folder: true},
		{path: "/etc/kusto-agent/conf.d", mode: 0o755, folder: true},
		{path: "/etc/kusto-agent/instances", mode: 0o755, folder: true},
		{path: share, mode: 0o755, folder: true},
		{path: docs, mode: 0o755, folder: true},
		{path: docs + "/kusto-agent.cdx.json", mode: 0o644, text: bom},
	}
	for _, part := range []func() ([]file, error){
		r.copies,
		func() ([]file, error) { return r.manual(host) },
		func() ([]file, error) { return printed(host) },
		r.words,
	} {
		files, err := part()
		if err != nil {
			return nil, err
		}
		tree = append(tree, files...)
	}
	tree = append(tree, licenceFiles(docs+"/third-party", third)...)
	slices.SortFunc(tree, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return tree, nil
}

// copies are the files that are in the checkout.
func (r *release) copies() (files []file, err error) {
	for _, c := range copied {
		found, err := filepath.Glob(filepath.Join(r.root, c.from))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("the checkout has no %s", c.from)
		}
		for _, name := range found {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			files = append(files, file{path: path.Join(c.to, filepath.Base(name)), mode: 0o644, text: text})
		}
	}
	return files, nil
}

// words are those that are written for the packages: the configuration to begin with,
// who holds which rights, and what has changed.
func (r *release) words() (files []file, err error) {
	config, err := own.ReadFile("agent.yaml")
	if err != nil {
		return nil, err
	}
	changes, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	changes, err = packed(changes)
	if err != nil {
		return nil, err
	}
	rights, err := r.rights()
	if err != nil {
		return nil, err
	}
	return []file{
		{path: "/etc/kusto-agent/agent.yaml", mode: 0o640, text: config, config: true},
		{path: docs + "/changelog.gz", mode: 0o644, text: changes},
		{path: docs + "/copyright", mode: 0o644, text: rights},
	}, nil
}

// rights names the licence of the project, or that there is none, and where those of
// the others are.
func (r *release) rights() ([]byte, error) {
	const others = "\nWhat others wrote and is part of the program is under the licences in\n" + docs + "/third-party.\n"
	text, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if os.IsNotExist(err) {
		return []byte("kusto-agent itself: its owner has not chosen a licence yet.\n" + others), nil
	}
	return append(text, others...), err
}

// manual has the pages of all commands.
func (r *release) manual(host string) (files []file, err error) {
	dir := filepath.Join(r.work, "man")
	if out, err := exec.Command(host, "man", "--dir", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("write manual: %w\n%s", err, out)
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		text, err := os.ReadFile(filepath.Join(dir, p.Name()))
		if err == nil {
			text, err = packed(text)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, file{path: "/usr/share/man/man1/" + p.Name() + ".gz", mode: 0o644, text: text})
	}
	return files, nil
}

// printed is what the agent prints to be installed.
func printed(host string) (files []file, err error) {
	for _, p := range []struct {
		file
		args []string
	}{
		{file{path: "/usr/share/bash-completion/completions/kusto-agent"}, []string{"completion", "bash"}},
		{file{path: "/usr/share/zsh/vendor-completions/_kusto-agent", only: "deb"}, []string{"completion", "zsh"}},
		{file{path: "/usr/share/zsh/site-functions/_kusto-agent", only: "rpm"}, []string{"completion", "zsh"}},
		{file{path: "/usr/share/fish/vendor_completions.d/kusto-agent.fish"}, []string{"completion", "fish"}},
		{file{path: share + "/agent.schema.json"}, []string{"config", "schema"}},
	} {
		text, err := exec.Command(host, p.args...).Output()
		if err != nil {
			return nil, fmt.Errorf("kusto-agent %s: %w", strings.Join(p.args, " "), err)
		}
		p.mode, p.text = 0o644, text
		files = append(files, p.file)
	}
	return files, nil
}

// packed is compressed as gzip -9n does.
func packed(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
