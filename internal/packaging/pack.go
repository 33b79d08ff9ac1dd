package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers deb
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers rpm
)

const description = `Ships records from files to Azure Data Explorer
It tails log files, streams their records into tables of Azure Data Explorer,
Fabric Eventhouse or Synapse Data Explorer, and knows of each record what
became of it. While the service is down it spools to disk.`

// unchosen stands for the licence of the project until its owner names one: it is what
// SPDX has for "nothing is said".
const unchosen = "NOASSERTION"

// pack makes the package of one kind, deb or rpm.
func (r *release) pack(kind, arch string, tree []file) (name string, text []byte, err error) {
	contents, err := r.stage(kind, arch, tree)
	if err != nil {
		return "", nil, err
	}
	info := &nfpm.Info{
		Name: "kusto-agent", Arch: arch, Version: r.version, VersionSchema: "none", Release: "1",
		Section: "admin", Priority: "optional", Maintainer: r.maintainer, Description: description, License: unchosen,
		MTime: r.when, DisableGlobbing: true,
		Overridables: nfpm.Overridables{Contents: contents, Umask: 0o022},
	}
	switch kind {
	case "deb":
		info.Depends = []string{"systemd | systemd-standalone-sysusers | systemd-sysusers"}
		info.Recommends = []string{"ca-certificates", "systemd (>= 252)"}
		info.Deb.Compression = "gzip"
		info.Scripts = nfpm.Scripts{PostInstall: "postinst", PreRemove: "prerm", PostRemove: "postrm"}
	case "rpm":
		info.Depends = []string{"systemd"}
		info.Recommends = []string{"ca-certificates"}
		info.RPM.BuildHost = "localhost"
		info.RPM.Compression = "gzip"
		info.Scripts = nfpm.Scripts{PreInstall: "pre", PostInstall: "post", PreRemove: "preun", PostRemove: "postun"}
	}
	for _, s := range []*string{&info.Scripts.PreInstall, &info.Scripts.PostInstall, &info.Scripts.PreRemove, &info.Scripts.PostRemove} {
		if *s == "" {
			continue
		}
		if *s, err = r.script(kind, *s); err != nil {
			return "", nil, err
		}
	}
	info = nfpm.WithDefaults(info)
	packager, err := nfpm.Get(kind)
	if err != nil {
		return "", nil, err
	}
	name = packager.ConventionalFileName(info)
	var out bytes.Buffer
	if err := nfpm.PrepareForPackager(info, kind); err != nil {
		return "", nil, fmt.Errorf("%s: %w", kind, err)
	}
	if err := packager.Package(info, &out); err != nil {
		return "", nil, fmt.Errorf("%s: %w", kind, err)
	}
	return name, out.Bytes(), nil
}

// script writes a script of the package to a file and returns its path. What both
// kinds of packages say to who installs them is in one place.
func (r *release) script(kind, name string) (path string, err error) {
	text, err := own.ReadFile("scripts/" + kind + "/" + name)
	if err != nil {
		return "", err
	}
	steps, err := own.ReadFile("scripts/next-steps")
	if err != nil {
		return "", err
	}
	users, err := os.ReadFile(filepath.Join(r.root, "systemd/sysusers.d/kusto-agent.conf"))
	if err != nil {
		return "", err
	}
	text = bytes.ReplaceAll(text, []byte("@NEXT_STEPS@\n"), steps)
	text = bytes.ReplaceAll(text, []byte("@SYSUSERS@\n"), users)
	path = filepath.Join(r.work, kind+"-"+name)
	return path, os.WriteFile(path, text, 0o755)
}

// stage writes the files of a package where the library finds them.
func (r *release) stage(kind, arch string, tree []file) (all files.Contents, err error) {
	for i, f := range tree {
		if f.only != "" && f.only != kind {
			continue
		}
		c := &files.Content{Destination: f.path, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.when}}
		all = append(all, c)
		switch {
		case f.folder:
			c.Type = files.TypeDir
			continue
		case f.config:
			c.Type = files.TypeConfigNoReplace
			if kind == "rpm" {
				c.FileInfo.Group = "kusto-agent" // made before the files are unpacked
			}
		}
		c.Source = filepath.Join(r.work, fmt.Sprintf("%s-%s-%d", kind, arch, i))
		if err := os.WriteFile(c.Source, f.text, 0o600); err != nil {
			return nil, err
		}
	}
	return all, nil
}
