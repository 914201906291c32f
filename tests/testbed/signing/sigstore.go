package main

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// instance is a Sigstore of its own: an authority, a log of certificates and a log of signatures.
type instance struct {
	dir                     string
	authority, ctLog, rekor *ecdsa.PrivateKey
	root                    *x509.Certificate
}

func newInstance(dir string) *instance {
	made := &instance{dir: dir, authority: key(dir, "authority"), ctLog: key(dir, "ct"), rekor: key(dir, "rekor")}
	path := filepath.Join(dir, "authority.der")
	if der, err := os.ReadFile(path); err == nil {
		made.root = must(x509.ParseCertificate(der))
		return made
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &made.authority.PublicKey, made.authority))
	check(os.WriteFile(path, der, 0o644))
	made.root = must(x509.ParseCertificate(der))
	return made
}

// describe writes what is to be trusted.
func (i *instance) describe() {
	begun := object{"start": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}
	describeLog := func(key *ecdsa.PrivateKey) object {
		return object{
			"baseUrl": "https://log.example", "hashAlgorithm": "SHA2_256", "logId": object{"keyId": b64(hash(public(key)))},
			"publicKey": object{"rawBytes": b64(public(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": begun},
		}
	}
	root := object{
		"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
		"tlogs":     []any{describeLog(i.rekor)}, "ctlogs": []any{describeLog(i.ctLog)}, "timestampAuthorities": []any{},
		"certificateAuthorities": []any{object{
			"subject": object{"organization": "test", "commonName": "test authority"}, "uri": "https://ca.example",
			"certChain": object{"certificates": []any{object{"rawBytes": b64(i.root.Raw)}}}, "validFor": begun,
		}},
	}
	check(os.WriteFile(filepath.Join(i.dir, "trusted_root.json"), encode(root), 0o644))
}

func claim(number int, text string) pkix.Extension {
	id := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, number}
	return pkix.Extension{Id: id, Value: must(asn1.MarshalWithParams(text, "utf8"))}
}

// certify makes a certificate for a few minutes, with the promise of the log of certificates in it (RFC 6962).
func (i *instance) certify(of *ecdsa.PublicKey, identity, issuer, source string) *x509.Certificate {
	template := &x509.Certificate{
		SerialNumber: must(rand.Int(rand.Reader, big.NewInt(1<<62))),
		NotBefore:    time.Now().Add(-time.Minute), NotAfter: time.Now().Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		URIs: []*url.URL{must(url.Parse(identity))}, ExtraExtensions: []pkix.Extension{claim(8, issuer)},
	}
	if source != "" {
		template.ExtraExtensions = append(template.ExtraExtensions,
			claim(9, identity), claim(11, "github-hosted"), claim(12, source), claim(14, "refs/heads/main"))
	}
	issue := func() *x509.Certificate {
		der := must(x509.CreateCertificate(rand.Reader, template, i.root, of, i.authority))
		return must(x509.ParseCertificate(der))
	}
	now := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixMilli()))
	tbs := issue().RawTBSCertificate
	signed := append([]byte{0, 0}, now...)
	signed = append(signed, 0, 1)
	signed = append(signed, hash(public(i.authority))...)
	signed = append(signed, byte(len(tbs)>>16), byte(len(tbs)>>8), byte(len(tbs)))
	signed = append(append(signed, tbs...), 0, 0)
	signature := sign(i.ctLog, signed)
	promise := append([]byte{0}, hash(public(i.ctLog))...)
	promise = append(append(promise, now...), 0, 0, 4, 3)
	promise = append(binary.BigEndian.AppendUint16(promise, uint16(len(signature))), signature...)
	list := append(binary.BigEndian.AppendUint16(nil, uint16(len(promise))), promise...)
	list = append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...)
	promises := pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: must(asn1.Marshal(list))}
	template.ExtraExtensions = append(template.ExtraExtensions, promises)
	return issue()
}

// logged is what the log of signatures says of an entry.
type logged struct {
	body, promise []byte
	at            int64
	checkpoint    string
}

// log makes a log with this one entry.
func (i *instance) log(entry object) logged {
	made := logged{body: encode(entry), at: time.Now().Unix()}
	made.promise = sign(i.rekor, encode(object{
		"body": b64(made.body), "integratedTime": made.at, "logIndex": 0, "logID": hex.EncodeToString(hash(public(i.rekor))),
	}))
	note := "log.example\n1\n" + b64(made.leaf()) + "\n"
	hint := append(hash(public(i.rekor))[:4:4], sign(i.rekor, []byte(note))...)
	made.checkpoint = note + "\n— log.example " + b64(hint) + "\n"
	return made
}

func (l *logged) leaf() []byte { return hash(append([]byte{0}, l.body...)) }

// signer signs, and says who it is.
type signer struct {
	dir, change string
	key         *ecdsa.PrivateKey
	instance    *instance
	certificate *x509.Certificate
}

type simple struct {
	payload     []byte
	annotations object
}

func (s *signer) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.certificate.Raw})
}

// forge changes what the log said, after it was said.
func (s *signer) forge(entry *logged) {
	switch s.change {
	case "log":
		entry.body = append(entry.body[:len(entry.body)-1:len(entry.body)-1], " }"...)
	case "time":
		entry.at -= 30
	}
}

// simple signs the document that names an image.
func (s *signer) simple(name, image string) simple {
	document := func(image string) []byte {
		return encode(object{"critical": object{
			"identity": object{"docker-reference": name}, "image": object{"docker-manifest-digest": image},
			"type": "cosign container image signature",
		}, "optional": nil})
	}
	payload := document(image)
	signature := sign(s.key, payload)
	annotations := object{"dev.cosignproject.cosign/signature": b64(signature)}
	if s.certificate != nil {
		entry := s.instance.log(object{"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": object{
			"data":      object{"hash": object{"algorithm": "sha256", "value": hex.EncodeToString(hash(payload))}},
			"signature": object{"content": b64(signature), "publicKey": object{"content": b64(s.pem())}},
		}})
		s.forge(&entry)
		annotations["dev.sigstore.cosign/certificate"] = string(s.pem())
		root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.instance.root.Raw})
		annotations["dev.sigstore.cosign/chain"] = string(root)
		annotations["dev.sigstore.cosign/bundle"] = string(encode(object{
			"SignedEntryTimestamp": b64(entry.promise),
			"Payload": object{
				"body": b64(entry.body), "integratedTime": entry.at, "logIndex": 0,
				"logID": hex.EncodeToString(hash(public(s.instance.rekor))),
			},
		}))
	}
	if s.change == "payload" {
		payload = append(payload, '\n')
	}
	return simple{payload, annotations}
}

// bundle signs a statement about an image.
func (s *signer) bundle(image, predicate string) []byte {
	payload := encode(object{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": predicate, "predicate": object{},
		"subject": []any{object{"name": "", "digest": object{"sha256": image[len("sha256:"):]}}},
	})
	message := "DSSEv1 " + strconv.Itoa(len(payloadType)) + " " + payloadType + " " + strconv.Itoa(len(payload)) + " "
	signature := sign(s.key, append([]byte(message), payload...))
	material := object{"publicKey": object{"hint": b64(hash(public(s.key)))}}
	if s.certificate != nil {
		hashed := func(data []byte) object {
			return object{"algorithm": "sha256", "value": hex.EncodeToString(hash(data))}
		}
		entry := s.instance.log(object{"apiVersion": "0.0.1", "kind": "dsse", "spec": object{
			"envelopeHash": hashed(payload), "payloadHash": hashed(payload),
			"signatures": []any{object{"signature": b64(signature), "verifier": b64(s.pem())}},
		}})
		s.forge(&entry)
		if s.change == "certificate" {
			s.certificate = s.instance.root
		}
		material = object{
			"certificate": object{"rawBytes": b64(s.certificate.Raw)},
			"tlogEntries": []any{object{
				"logIndex": "0", "logId": object{"keyId": b64(hash(public(s.instance.rekor)))},
				"kindVersion": object{"kind": "dsse", "version": "0.0.1"}, "integratedTime": strconv.FormatInt(entry.at, 10),
				"inclusionPromise": object{"signedEntryTimestamp": b64(entry.promise)},
				"inclusionProof": object{
					"logIndex": "0", "treeSize": "1", "rootHash": b64(entry.leaf()), "hashes": []any{},
					"checkpoint": object{"envelope": entry.checkpoint},
				},
				"canonicalizedBody": b64(entry.body),
			}},
		}
	}
	if s.change == "payload" {
		payload = append(payload, '\n')
	}
	return encode(object{
		"mediaType": bundleType, "verificationMaterial": material,
		"dsseEnvelope": object{
			"payload": b64(payload), "payloadType": payloadType, "signatures": []any{object{"sig": b64(signature)}},
		},
	})
}
