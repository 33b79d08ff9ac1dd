package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// party is a module of others that is in the agent, or the Go standard library.
type party struct {
	name, version string
	licences      map[string][]byte // by their path in the module
}

// standard is the name under which the Go standard library is told.
const standard = "std"

// licenceName is how files are called whose text has to go with a program.
var licenceName = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|patents)([-.].*)?$`)

// thirdParties finds the licences of everything that is compiled into the agent: those of
// the folders of its packages and of the folders above them. A module without any is an
// error, since nobody may pass it on.
func (r *release) thirdParties(arch string) (all []*party, err error) {
	cmd := r.goCommand(arch, "list", "-deps", "-json=Dir,Standard,Module", "./cmd/agent")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of the agent: %w", err)
	}
	found := make(map[string]*party)
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p struct {
			Dir      string
			Standard bool
			Module   *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		if p.Standard || p.Module.Main {
			continue
		}
		m := found[p.Module.Path]
		if m == nil {
			m = &party{name: p.Module.Path, version: p.Module.Version, licences: make(map[string][]byte)}
			found[m.name] = m
		}
		if err := m.collect(p.Module.Dir, p.Dir); err != nil {
			return nil, err
		}
	}
	if found[standard], err = r.standardLibrary(arch); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if len(found[name].licences) == 0 {
			return nil, fmt.Errorf("module %s has no licence in it", name)
		}
		all = append(all, found[name])
	}
	return all, nil
}

// standardLibrary is that of the Go that compiles.
func (r *release) standardLibrary(arch string) (*party, error) {
	root, version, err := r.toolchain(arch)
	if err != nil {
		return nil, err
	}
	p := &party{name: standard, version: version, licences: make(map[string][]byte)}
	return p, p.collect(root, root)
}

// collect takes what licences there are in dir and in the folders between it and root.
func (p *party) collect(root, dir string) error {
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() || !licenceName.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			full := filepath.Join(dir, e.Name())
			at, err := filepath.Rel(root, full)
			if err != nil {
				return err
			}
			if p.licences[filepath.ToSlash(at)], err = os.ReadFile(full); err != nil {
				return err
			}
		}
		if dir == root || len(dir) <= len(root) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// paths are those of its licences, sorted.
func (p *party) paths() []string { return slices.Sorted(maps.Keys(p.licences)) }

// kinds are the licences that are told by words that no other has, by their SPDX names.
var kinds = []struct{ name, words string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"},
	{"BSD-3-Clause", "may be used to endorse or promote products derived from this software without specific prior written permission"},
	{"BSD-2-Clause", "redistributions in binary form must reproduce the above copyright notice"},
}

// kindOf names a licence by its text; empty: it is none of the known ones.
func kindOf(text []byte) string {
	flat := strings.Join(strings.Fields(strings.NewReplacer(",", ", ", "*", " ").Replace(strings.ToLower(string(text)))), " ")
	flat = strings.Replace(flat, "license, version", "license version", 1)
	for _, k := range kinds {
		if strings.Contains(flat, k.words) {
			return k.name
		}
	}
	return ""
}

// kinds are the names of its licences, each once; those that are not known are missing.
func (p *party) kinds() (names []string) {
	for _, at := range p.paths() {
		if k := kindOf(p.licences[at]); k != "" && !slices.Contains(names, k) {
			names = append(names, k)
		}
	}
	return names
}

// licenceFiles are all of them, by a path of their own below the folder given.
func licenceFiles(below string, all []*party) (files []file) {
	for _, p := range all {
		for _, at := range p.paths() {
			files = append(files, file{path: path.Join(below, p.name, at), mode: 0o644, text: p.licences[at]})
		}
	}
	return files
}
