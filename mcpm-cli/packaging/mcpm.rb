# Template of the Homebrew formula, which `release` fills in.
class Mcpm < Formula
  desc "Runs MCP servers as container workloads behind an HTTP proxy"
  homepage "@REPOSITORY_URL@"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@RELEASE_URL@/mcpm-aarch64-apple-darwin.tar.gz"
      sha256 "@SHA256:aarch64-apple-darwin@"
    end
    on_intel do
      url "@RELEASE_URL@/mcpm-x86_64-apple-darwin.tar.gz"
      sha256 "@SHA256:x86_64-apple-darwin@"
    end
  end
  on_linux do
    on_arm do
      url "@RELEASE_URL@/mcpm-aarch64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256:aarch64-unknown-linux-musl@"
    end
    on_intel do
      url "@RELEASE_URL@/mcpm-x86_64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256:x86_64-unknown-linux-musl@"
    end
  end

  def install
    bin.install "bin/mcpm"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/mcpm"
    zsh_completion.install "share/zsh/site-functions/_mcpm"
    fish_completion.install "share/fish/vendor_completions.d/mcpm.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/mcpm --version")
  end
end
