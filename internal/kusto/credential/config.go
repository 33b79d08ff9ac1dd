package credential

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/wire"
	"kusto-agent/internal/units"
)

// Config says who the agent is to a cluster. It may hold a secret in
// ClientSecret; printed, logged or marshalled it shows kusto.Mask there instead.
// Files are named, and read by ReadFiles alone. Start from DefaultConfig.
type Config struct {
	Method    string `yaml:"method"`    // one of Methods
	Authority string `yaml:"authority"` // URL of the token service, without the tenant; empty: the one the cluster names
	Tenant    string `yaml:"tenant"`
	ClientID  string `yaml:"client_id"`

	ClientSecret     string `yaml:"client_secret"`
	ClientSecretFile string `yaml:"client_secret_file"`

	Resource string `yaml:"resource"` // what the token is for; empty: the cluster URL

	CertificateFile         string `yaml:"certificate_file"`
	CertificatePasswordFile string `yaml:"certificate_password_file"`
	FederatedTokenFile      string `yaml:"federated_token_file"`
	ResourceID              string `yaml:"resource_id"` // of a user-assigned managed identity
	TokenFile               string `yaml:"token_file"`
}

// Files returns the settings that name files, which are empty where none is named.
func (c *Config) Files() []*string {
	return []*string{&c.ClientSecretFile, &c.TokenFile, &c.CertificateFile, &c.CertificatePasswordFile, &c.FederatedTokenFile}
}

// Methods are the values of Method, auto first.
var Methods = []string{"auto", "client_secret", "certificate", "managed_identity", "workload_identity", "azure_cli", "token_file", "none"}

// DefaultConfig returns the settings that apply to every key that the configuration does not set.
func DefaultConfig() Config {
	return Config{Method: "auto"}
}

// Validate returns all faults, each a *units.KeyError, joined with errors.Join. It does not check
// whether the method can be used with a given cluster.
func (c Config) Validate() error {
	errs := []error{checkMethod(c.Method), checkAuthority(c.Authority)}
	need := func(key, value, why string) {
		if value == "" {
			errs = append(errs, units.Bad(key, "missing; method %s needs %s", c.Method, why))
		}
	}
	switch c.Method {
	case "client_secret":
		need("tenant", c.Tenant, "the tenant, by name or id")
		need("client_id", c.ClientID, "the id of the application")
		need("client_secret_file", c.ClientSecret+c.ClientSecretFile, "client_secret_file, or client_secret: ${NAME}")
	case "token_file":
		need("token_file", c.TokenFile, "the file that holds the token")
	case "certificate":
		need("tenant", c.Tenant, "the tenant, by name or id")
		need("client_id", c.ClientID, "the id of the application")
		need("certificate_file", c.CertificateFile, "the file that holds the certificate and its key")
	case "managed_identity":
		if c.ClientID != "" && c.ResourceID != "" {
			errs = append(errs, units.Bad("resource_id", "client_id is given too; want one of them"))
		}
	}
	errs = append(errs, c.unused()...)
	if c.ClientSecret != "" && c.ClientSecretFile != "" {
		errs = append(errs, units.Bad("client_secret_file", "client_secret is given too; want one of them"))
	}
	return errors.Join(errs...)
}

// unused returns an error for each key that is set and that the method does not use. A method that
// does not exist is taken to use all.
func (c Config) unused() (errs []error) {
	if !slices.Contains(Methods, c.Method) {
		return nil
	}
	asked := []string{"client_secret", "certificate", "managed_identity", "workload_identity", "azure_cli"}
	known := append(slices.Clone(asked), "token_file") // tenant and client_id name the agent in hints and grants too
	for _, k := range []struct {
		key, value string
		byAuto     bool
		methods    []string
	}{
		{"authority", c.Authority, true, []string{"client_secret", "certificate", "workload_identity"}},
		{"tenant", c.Tenant, true, known},
		{"client_id", c.ClientID, true, known},
		{"client_secret", c.ClientSecret, true, []string{"client_secret"}},
		{"client_secret_file", c.ClientSecretFile, true, []string{"client_secret"}},
		{"resource", c.Resource, true, asked},
		{"certificate_file", c.CertificateFile, false, []string{"certificate"}},
		{"certificate_password_file", c.CertificatePasswordFile, false, []string{"certificate"}},
		{"federated_token_file", c.FederatedTokenFile, true, []string{"workload_identity"}},
		{"resource_id", c.ResourceID, true, []string{"managed_identity"}},
		{"token_file", c.TokenFile, false, []string{"token_file"}},
	} {
		if k.value == "" || slices.Contains(k.methods, c.Method) || k.byAuto && c.Method == "auto" {
			continue
		}
		list := k.methods[len(k.methods)-1]
		if others := k.methods[:len(k.methods)-1]; len(others) > 0 {
			list = strings.Join(others, ", ") + " or " + list
		}
		errs = append(errs, units.Bad(k.key, "method %s does not use it; leave it out, or set method: %s", c.Method, list))
	}
	return errs
}

// checkMethod returns a *units.KeyError if method is not one of Methods. The error lists the
// allowed methods, but does not quote the value, which may be a secret that was written into the
// wrong key.
func checkMethod(method string) error {
	err := units.OneOf("method", method, Methods...)
	if told, ok := errors.AsType[*units.KeyError](err); ok {
		told.Problem = "not a method" + told.Problem[strings.LastIndex(told.Problem, "; want "):]
	}
	return err
}

// checkAuthority returns a *units.KeyError if a secret must not be sent to this URL: it must be https,
// or http to this machine. An empty string is allowed.
func checkAuthority(authority string) error {
	if authority == "" {
		return nil
	}
	if _, err := wire.WebURL(authority); err != nil {
		return units.Bad("authority", "%v; want one such as https://login.microsoftonline.com", err)
	}
	return nil
}

// Masked returns a copy in which a client secret is replaced by kusto.Mask.
func (c Config) Masked() Config {
	if c.ClientSecret != "" {
		c.ClientSecret = kusto.Mask
	}
	return c
}

// Format implements fmt.Formatter: for every verb it writes method, tenant and client, and no secret.
func (c Config) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "{method %s, tenant %s, client %s}", c.Method, c.Tenant, c.ClientID)
}

// LogValue implements slog.LogValuer: it shows method, tenant and client, and no secret.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(slog.String("method", c.Method), slog.String("tenant", c.Tenant), slog.String("client_id", c.ClientID))
}

// MarshalJSON writes the fields with the secret masked.
func (c Config) MarshalJSON() ([]byte, error) {
	type fields Config // without the methods
	return json.Marshal(fields(c.Masked()))
}
