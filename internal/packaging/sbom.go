package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// components is the list of what is in a binary, in CycloneDX JSON: what the compiler
// itself noted there, with the licences of each module.
func (r *release) components(arch, binary string, third []*party) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read what is in the binary: %w", err)
	}
	by := make(map[string]*party)
	for _, p := range third {
		by[p.name] = p
	}
	bom := cdx.NewBOM()
	root := fmt.Sprintf("pkg:generic/kusto-agent@%s?arch=%s", r.version, arch)
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.date,
		Component: &cdx.Component{
			BOMRef: root, Type: cdx.ComponentTypeApplication, Name: "kusto-agent", Version: r.version, PackageURL: root,
			Properties: &[]cdx.Property{{Name: "commit", Value: r.commit}, {Name: "go", Value: info.GoVersion}, {Name: "arch", Value: arch}},
		},
	}
	// The binary has no dependency that the list of licences lacks, and the other way round.
	var parts []cdx.Component
	var refs []string
	for _, m := range append(info.Deps, &debug.Module{Path: standard, Version: by[standard].version}) {
		if m.Replace != nil {
			m = m.Replace
		}
		p := by[m.Path]
		if p == nil {
			return nil, fmt.Errorf("module %s is in the binary, but its licence was not found", m.Path)
		}
		delete(by, m.Path)
		url := "pkg:golang/" + m.Path + "@" + m.Version
		parts = append(parts, cdx.Component{
			BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url, Licenses: p.choices(),
		})
		refs = append(refs, url)
	}
	for name := range by {
		return nil, fmt.Errorf("module %s has a licence, but is not in the binary", name)
	}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: root, Dependencies: &refs}}
	var out bytes.Buffer
	enc := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true)
	if err := enc.EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("write list of components: %w", err)
	}
	return out.Bytes(), nil
}

// choices are the licences that its files are under, all of which hold.
func (p *party) choices() *cdx.Licenses {
	var all cdx.Licenses
	for _, k := range p.kinds() {
		all = append(all, cdx.LicenseChoice{License: &cdx.License{ID: k}})
	}
	if len(all) == 0 {
		all = append(all, cdx.LicenseChoice{License: &cdx.License{Name: "see " + p.paths()[0]}})
	}
	return &all
}
