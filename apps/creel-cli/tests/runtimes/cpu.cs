class Cpu {
    static void Main() { System.Console.WriteLine(System.Environment.ProcessorCount); }
}
