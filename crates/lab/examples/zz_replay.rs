fn main() {
    for path in std::env::args().skip(1) {
        match lab::vectors::run(std::path::Path::new(&path)) {
            Ok(report) => println!("{path}: {} passed\n{report}", report.passed()),
            Err(error) => println!("{path}: {error}"),
        }
    }
}
