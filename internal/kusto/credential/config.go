package credential

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/wire"
	"kusto-agent/internal/units"
)

// Config says who the agent is to a cluster. It may hold a secret in
// ClientSecret; printed, logged or marshalled it shows kusto.Mask there instead.
// Files are named, never read here. Start from DefaultConfig.
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

// Methods are the values of Method, auto first.
var Methods = []string{"auto", "client_secret", "certificate", "managed_identity", "workload_identity", "azure_cli", "token_file", "none"}

// DefaultConfig is what holds where the configuration says nothing.
func DefaultConfig() Config {
	return Config{Method: "auto"}
}

// Validate returns every complaint as a *units.KeyError, joined. Whether a
// method may be used with a cluster is not asked here.
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
	case "auto":
		for _, f := range []struct{ key, value, method string }{
			{"certificate_file", c.CertificateFile, "certificate"}, {"token_file", c.TokenFile, "token_file"},
		} {
			if f.value != "" {
				errs = append(errs, units.Bad("method", "auto does not look at %s; want method: %s", f.key, f.method))
			}
		}
	}
	if c.ClientSecret != "" && c.ClientSecretFile != "" {
		errs = append(errs, units.Bad("client_secret_file", "client_secret is given too; want one of them"))
	}
	return errors.Join(errs...)
}

// checkMethod does not quote what is no method: it may be a secret.
func checkMethod(method string) error {
	err := units.OneOf("method", method, Methods...)
	var told *units.KeyError
	if errors.As(err, &told) {
		told.Problem = "not a method" + told.Problem[strings.LastIndex(told.Problem, "; want "):]
	}
	return err
}

// checkAuthority holds the token service to what holds for a cluster: a secret
// is sent there.
func checkAuthority(authority string) error {
	if authority == "" {
		return nil
	}
	if _, err := wire.WebURL(authority); err != nil {
		return units.Bad("authority", "%v; want one such as https://login.microsoftonline.com", err)
	}
	return nil
}

// Masked is a copy that holds no secret.
func (c Config) Masked() Config {
	if c.ClientSecret != "" {
		c.ClientSecret = kusto.Mask
	}
	return c
}

// Format writes the same few words for every verb, and no secret.
func (c Config) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "{method %s, tenant %s, client %s}", c.Method, c.Tenant, c.ClientID)
}

// LogValue shows the method and who, and no secret.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(slog.String("method", c.Method), slog.String("tenant", c.Tenant), slog.String("client_id", c.ClientID))
}

// MarshalJSON writes the fields with the secret masked.
func (c Config) MarshalJSON() ([]byte, error) {
	type fields Config // without the methods
	return json.Marshal(fields(c.Masked()))
}
